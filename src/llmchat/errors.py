"""Errors a person sees: a title, what happened, and what to do.

The tree (exit code of the command line in brackets)::

    LlmchatError
    ├── Cancelled          [130] the person stopped it
    ├── InputError           [2] what was asked cannot be done as asked
    │   ├── UsageError           an option or its value
    │   ├── ModelError           not found, damaged, unsupported
    │   ├── AccessError          token, gated or private model
    │   ├── OfflineError         the hub cannot be reached
    │   ├── FitError             no plan fits what was asked
    │   └── PromptError          beyond the context, refused by the chat template
    └── RunError             [1] it was possible, and went wrong
        ├── OutOfMemory
        ├── EngineDied
        │   └── EngineKilled
        ├── StorageError         disk full, read-only, damaged file of ours
        └── InternalError        a bug in llmchat or a library
"""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error as data: crosses the pipe and is what every dialog shows."""

    kind: str
    """Name of the class in this module."""
    title: str
    """A few words, no full stop: ``Model not found``."""
    message: str
    """What happened, in sentences."""
    remedy: str = ""
    """What the person can do now."""
    detail: str = ""
    """For the log: a traceback, a library's own words. Never shown unasked."""


class LlmchatError(Exception):
    """Base of every error that a person is meant to see."""

    exit_code = 1
    stats: object | None = None
    """``ReplyStats`` of a reply that had begun when this ended it; sent with ``Failed``."""

    def __init__(self, title: str, message: str, remedy: str = "", *, detail: str = "") -> None:
        super().__init__(message)
        self.title, self.message, self.remedy, self.detail = title, message, remedy, detail

    @property
    def problem(self) -> Problem:
        return Problem(
            kind=type(self).__name__,
            title=self.title,
            message=self.message,
            remedy=self.remedy,
            detail=self.detail,
        )

    @staticmethod
    def from_problem(problem: Problem) -> LlmchatError:
        """The exception of a Problem that came over the pipe; an unknown kind becomes InternalError."""
        cls = globals().get(problem.kind)
        if not (isinstance(cls, type) and issubclass(cls, LlmchatError)):
            cls = InternalError
        return cls(problem.title, problem.message, problem.remedy, detail=problem.detail)


class Cancelled(LlmchatError):
    exit_code = 130


class InputError(LlmchatError):
    exit_code = 2


class UsageError(InputError):
    pass


class ModelError(InputError):
    pass


class AccessError(InputError):
    pass


class OfflineError(InputError):
    pass


class FitError(InputError):
    pass


class PromptError(InputError):
    pass


class RunError(LlmchatError):
    pass


class OutOfMemory(RunError):
    pass


class EngineDied(RunError):
    pass


class EngineKilled(EngineDied):
    """By the system, most likely because the RAM ran out."""


class StorageError(RunError):
    pass


class InternalError(RunError):
    pass
