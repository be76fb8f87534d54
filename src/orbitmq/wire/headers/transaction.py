"""Transactions: the end of one, and checks of undecided ones."""

from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, Int32, Int64, RpcHeader, declares

__all__ = [
    "CheckTransactionState",
    "CheckTransactionStateAnswer",
    "EndTransaction",
    "ResumeCheckHalfMessage",
]


@declares(RequestCode.END_TRANSACTION)
class EndTransaction(RpcHeader):
    """Commit or roll back a half message. One-way."""

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None


class CheckTransactionStateAnswer(Header):
    """The answer to CheckTransactionState."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32


@declares(RequestCode.CHECK_TRANSACTION_STATE, answer=CheckTransactionStateAnswer)
class CheckTransactionState(RpcHeader):
    """Ask a producer for the outcome of a half message, which is in the body."""

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


@declares(RequestCode.RESUME_CHECK_HALF_MESSAGE)
class ResumeCheckHalfMessage(Header):
    """Check a half message again whose checks had ended."""

    topic: str | None = None
    msg_id: str | None = None
