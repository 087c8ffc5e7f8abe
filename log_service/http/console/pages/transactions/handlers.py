"""The list of transactions, one transaction, and the button that ends a hanging one."""

from collections.abc import Mapping, Sequence

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import HangingTransaction, ItemsFailed, ProducerDescription
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.http.console.addresses import command, path_to
from log_service.http.console.forms import choice_of, number_of
from log_service.http.console.page_requests import PageRequest, redirect
from log_service.http.console.pages.transactions.view import (
    STATES,
    hanging_rows,
    transaction_list,
    writer_rows,
)
from log_service.http.console.previews import ChangeRow, Preview, is_confirmed, kept, preview_page
from log_service.http.server.values import HttpError, HttpResponse

DEFAULT_OPEN_MIN = 15
"""The brokers' default of transaction.max.timeout.ms, in minutes."""
MAX_OPEN_MIN = 100_000
HANGING_TIMEOUT_MS = 20_000
PRODUCERS_TIMEOUT_MS = 5_000
MAX_SHOWN_PARTITIONS = 500


async def show_list(page_request: PageRequest) -> HttpResponse:
    """Show a page of the transactional ids."""
    query = page_request.query
    state = choice_of(query, "state", STATES)
    search = query.get("q", "")[:250]
    admin = await page_request.admin()
    found = await admin.list_transactions(states=[state] if state else [])
    own = path_to("transactions", q=search, state=state)
    options = ["--state", state] if state else []
    return page_request.page(
        "list.html",
        title="Transactions",
        commands=(command("transactions", "list", *options),),
        found=transaction_list(
            found, search=search, page=number_of(query, "page", 1, most=1_000_000)
        ),
        states=STATES,
        state=state,
        search=search,
        own=own + ("&" if "?" in own else "?"),
    )


async def show(page_request: PageRequest) -> HttpResponse:
    """Show one transactional id, and the state of its producer in each partition."""
    name = page_request.required("id")
    admin = await page_request.admin()
    found = (await admin.describe_transactions([name]))[name]
    shown = found.partitions[:MAX_SHOWN_PARTITIONS]
    producers = await _producers(admin, shown)
    return page_request.page(
        "transaction.html",
        title=f"Transaction {name}",
        commands=(command("transactions", "describe", name),),
        transaction=found,
        rows=writer_rows(shown, producers, found.producer_id),
        is_cut=len(shown) < len(found.partitions),
    )


async def _producers(
    admin: Admin, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, Sequence[ProducerDescription]]:
    """Return the producers of the partitions that this person may read."""
    if not partitions:
        return {}
    try:
        return await admin.describe_producers(partitions, timeout_ms=PRODUCERS_TIMEOUT_MS)
    except ItemsFailed as error:
        return dict(error.results)
    except KafkaError:
        return {}


async def show_hanging(page_request: PageRequest) -> HttpResponse:
    """Look for open transactions that no coordinator will end."""
    asked = page_request.form or page_request.query
    minutes = number_of(asked, "open", DEFAULT_OPEN_MIN, least=0, most=MAX_OPEN_MIN)
    found = await (await page_request.admin()).find_hanging_transactions(
        open_longer_than_ms=minutes * 60_000, timeout_ms=HANGING_TIMEOUT_MS
    )
    line = command("transactions", "find-hanging", "--open-for", f"{minutes}m")
    return page_request.page(
        "hanging.html",
        title="Hanging transactions",
        commands=(line,),
        rows=hanging_rows(found),
        minutes=minutes,
        done="The transaction was aborted." if page_request.query.get("done") == "aborted" else "",
    )


async def abort(page_request: PageRequest) -> HttpResponse:
    """Preview the abort of a hanging transaction, or abort it if the person has confirmed it."""
    form = page_request.form
    where = TopicPartition(page_request.required("topic"), number_of(form, "partition", -1))
    start_offset = number_of(form, "start_offset", -1)
    admin = await page_request.admin()
    producers = (await admin.describe_producers([where]))[where]
    found = next(
        (each for each in producers if each.transaction_start_offset == start_offset), None
    )
    if found is None or start_offset < 0:
        text = f"no transaction of {where} begins at offset {start_offset}: it may have ended"
        raise HttpError(404, text)
    hanging = HangingTransaction(
        topic_partition=where,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        coordinator_epoch=found.coordinator_epoch,
        start_offset=start_offset,
        last_timestamp_ms=found.last_timestamp_ms,
    )
    if is_confirmed(page_request):
        with page_request.audited("abort transaction", f"{where} at {start_offset}"):
            await admin.abort_transaction(hanging)
        return redirect(path_to("transactions", "hanging", open=form.get("open"), done="aborted"))
    name = f"{where.topic}:{where.partition}"
    preview = Preview(
        sentence=f"The transaction of producer {found.producer_id} in {where} would be aborted.",
        action=path_to("transactions", "abort"),
        button="Abort it",
        back=path_to("transactions", "hanging", open=form.get("open")),
        rows=(ChangeRow(what=f"Offset {start_offset}", before="open", after="aborted"),),
        fields=kept(page_request, "topic", "partition", "start_offset", "open"),
        warnings=("If its producer is alive, the producer loses the records without an error.",),
        is_destructive=True,
    )
    line = command("transactions", "abort", name, "--start-offset", start_offset)
    return preview_page(page_request, preview, line)
