"""A dispatch mode that torch's compiler never traces, and for which torch does not load it."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class UntracedMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Base of the oracle's modes.

    To exempt a mode from tracing torch imports torch._dynamo, a second, at the first operation;
    the attribute that is set here exempts it without.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)  # type: ignore[no-untyped-call]
        dispatch: Any = cls.__torch_dispatch__
        dispatch._torchdynamo_disable = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
