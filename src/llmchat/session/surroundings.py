"""What a session looks up beside the model: settings, machine, models, account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from llmchat.domain.chat import Sampling
from llmchat.domain.plan import Request
from llmchat.errors import LlmchatError
from llmchat.session.hardware.machine import Machine, read_profile
from llmchat.session.options import SessionOptions
from llmchat.session.state import HubAccount
from llmchat.session.store import Store
from llmchat.session.threads import in_thread
from llmchat.session.unexpected import unexpected
from llmchat.session.watching import Samples

if TYPE_CHECKING:
    from llmchat.session.saved.settings import Settings


class Surroundings:
    def __init__(self, store: Store, machine: Machine, options: SessionOptions) -> None:
        self._store, self._machine, self._options = store, machine, options
        self.settings: Settings | None = None
        """None before they are read, and when they cannot be."""

    async def read_settings(self) -> None:
        from llmchat.session.saved import settings

        try:
            self.settings = await in_thread(settings.load)
        except LlmchatError as error:
            self._store.fail(error)

    def request(self) -> Request:
        """The options', completed by the settings."""
        request, default = self._options.request, Request()
        given = self._options.prefer or (self.settings.prefer if self.settings else None)
        request = replace(request, prefer=given or request.prefer)
        if self.settings and request.comfortable == default.comfortable:
            request = replace(request, comfortable=self.settings.comfortable)
        return request

    def sampling(self) -> Sampling:
        return self._options.sampling or (self.settings.sampling if self.settings else Sampling())

    def system(self) -> str:
        return self._options.system or (self.settings.system if self.settings else "")

    async def look_at_machine(self) -> None:
        try:
            hardware = await self._machine.profile()
        except Exception as error:
            self._store.warn(_readable("The machine cannot be looked at", error))
            return
        if self._store.state.hardware is None:
            self._store.update(hardware=hardware)

    async def list_models(self) -> None:
        from llmchat.session.models import catalog

        if self.settings is None:
            return
        try:
            self._store.update(models=await in_thread(catalog.models, self.settings))
        except Exception as error:
            self._store.warn(_readable("The models on this disk cannot be listed", error))

    async def ask_account(self) -> None:
        """What goes wrong at this point is said by the account itself."""
        try:
            from llmchat.session import hub

            self._store.update(account=await in_thread(hub.account))
        except Exception as error:
            problem = _readable("The hub cannot be asked", error)
            self._store.log(f"{problem.title}: {problem.detail or problem.message}")
            self._store.update(account=HubAccount(note=f"not checked: {problem.message}"))

    async def login(self, token: str) -> HubAccount:
        from llmchat.session import hub

        account = await in_thread(hub.login, token)
        self._store.update(account=account)
        return account

    async def logout(self) -> HubAccount:
        from llmchat.session import hub

        account = await in_thread(hub.logout)
        self._store.update(account=account)
        return account

    def sampler(self) -> Samples:
        """Called in the sampling thread: its imports are slow."""
        from llmchat.session.hardware import sampler

        if self._options.fake:
            return sampler.FakeSampler(read_profile(self._options.fake))
        return sampler.Sampler()


def _readable(title: str, error: Exception) -> LlmchatError:
    return error if isinstance(error, LlmchatError) else unexpected(title, error)
