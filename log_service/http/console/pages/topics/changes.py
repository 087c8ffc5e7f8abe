"""Changes of topics: the first request shows a change, and the second one makes it.

The cluster checks new topics and configs before the preview is shown, so the shown change can be
expected to work.
"""

from collections.abc import Mapping

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ConfigResource, NewTopic
from log_service.common.errors import KafkaError
from log_service.common.topic_names import topic_name_fault
from log_service.http.console.addresses import command, path_to
from log_service.http.console.forms import configs_of, number_of
from log_service.http.console.page_requests import PageRequest, redirect
from log_service.http.console.pages.topics.handlers import read_configs, read_topic
from log_service.http.console.pages.topics.view import config_change, deletion_warnings
from log_service.http.console.previews import ChangeRow, Preview, is_confirmed, kept, preview_page
from log_service.http.console.rendering import UNKNOWN
from log_service.http.server.values import HttpError, HttpResponse

MAX_PARTITIONS = 2**31 - 1
MAX_REPLICAS = 2**15 - 1
MAX_GROUPS = 200
"""The most groups that are asked for the topics that their members read."""


async def show_creation(page_request: PageRequest) -> HttpResponse:
    """Show the form of a new topic."""
    commands = (command("topics", "create", "NAME", "--partitions", 3),)
    return page_request.page("create.html", title="Create a topic", commands=commands)


async def create(page_request: PageRequest) -> HttpResponse:
    """Preview a new topic as the cluster would create it, or create it if confirmed."""
    form = page_request.form
    name = form.get("name", "").strip()
    if fault := topic_name_fault(name):
        raise HttpError(400, fault)
    topic = NewTopic(
        name=name,
        partition_count=number_of(form, "partitions", -1, least=-1, most=MAX_PARTITIONS),
        replication_factor=number_of(form, "replicas", -1, least=-1, most=MAX_REPLICAS),
        configs=configs_of(form.get("configs", "")),
    )
    admin = await page_request.admin()
    if is_confirmed(page_request):
        with page_request.audited("create topic", name):
            await admin.create_topics([topic])
        return redirect(path_to("topics", name, done="created"))
    await admin.create_topics([topic], is_validated_only=True)
    rows = [
        ChangeRow(what="Partitions", before=UNKNOWN, after=_or_default(topic.partition_count)),
        ChangeRow(what="Replicas", before=UNKNOWN, after=_or_default(topic.replication_factor)),
        *(ChangeRow(what=key, before=UNKNOWN, after=value) for key, value in topic.configs.items()),
    ]
    preview = Preview(
        sentence=f"The cluster would create the topic {name}.",
        action=path_to("create-topic"),
        button="Create it",
        back=path_to("create-topic"),
        rows=tuple(rows),
        fields=kept(page_request, "name", "partitions", "replicas", "configs"),
    )
    return preview_page(page_request, preview, _creation_line(topic))


def _or_default(number: int) -> str:
    return "the broker's default" if number < 0 else str(number)


def _creation_line(topic: NewTopic) -> str:
    options: list[object] = []
    if topic.partition_count > 0:
        options += ["--partitions", topic.partition_count]
    if topic.replication_factor > 0:
        options += ["--replication-factor", topic.replication_factor]
    for key, value in topic.configs.items():
        options += ["--config", f"{key}={value}"]
    return command("topics", "create", topic.name, *options)


async def change_configs(page_request: PageRequest) -> HttpResponse:
    """Preview changes of a topic's configs, or make them if the person has confirmed them.

    The field ``configs`` of the form has lines of ``key=value``. ``key`` and ``value`` set one more
    config. ``reset`` has the key of a config to reset. Each of them may be missing.
    """
    name, form = page_request.value("topic"), page_request.form
    changes: dict[str, str | None] = dict(configs_of(form.get("configs", "")))
    if form.get("key"):
        changes[form["key"].strip()] = form.get("value", "")
    if form.get("reset"):
        changes[form["reset"].strip()] = None
    if not changes:
        raise HttpError(400, "nothing to change: write lines of key=value")
    admin = await page_request.admin()
    wanted = {ConfigResource.topic(name): changes}
    if is_confirmed(page_request):
        shown = ", ".join(sorted(changes))
        with page_request.audited("alter configs", f"topic {name}: {shown}"):
            await admin.alter_configs(wanted)
        return redirect(path_to("topics", name, "configs", done="changed"))
    await admin.alter_configs(wanted, is_validated_only=True)
    preview = Preview(
        sentence=f"These configs of {name} would change.",
        action=path_to("topics", name, "configs"),
        button="Change them",
        back=path_to("topics", name, "configs"),
        rows=config_change(await read_configs(page_request, name), changes),
        fields=kept(page_request, "configs", "key", "value", "reset"),
    )
    return preview_page(page_request, preview, _alteration_line(name, changes))


def _alteration_line(name: str, changes: Mapping[str, str | None]) -> str:
    options: list[object] = []
    for key, value in changes.items():
        options += ["--reset", key] if value is None else ["--config", f"{key}={value}"]
    return command("topics", "alter", name, *options)


async def add_partitions(page_request: PageRequest) -> HttpResponse:
    """Preview more partitions for a topic, or add them if the person has confirmed it."""
    name = page_request.value("topic")
    count = number_of(page_request.form, "partitions", 0, least=1, most=MAX_PARTITIONS)
    admin = await page_request.admin()
    if is_confirmed(page_request):
        with page_request.audited("create partitions", f"topic {name}: {count}"):
            await admin.create_partitions({name: count})
        return redirect(path_to("topics", name, done="grown"))
    before = (await admin.describe_topics([name]))[name].partition_count
    if count <= before:
        text = f"{name} has {before} partitions, which never become fewer: name a larger number"
        raise HttpError(400, text)
    preview = Preview(
        sentence=f"The topic {name} would get {count - before} more partitions.",
        action=path_to("topics", name, "partitions"),
        button="Add them",
        back=path_to("topics", name),
        rows=(ChangeRow(what="Partitions", before=str(before), after=str(count)),),
        fields=(("partitions", str(count)),),
        warnings=(
            "New records with a key may go to another partition than earlier ones with that key.",
            "Partitions are never taken away again.",
        ),
    )
    return preview_page(
        page_request, preview, command("topics", "alter", name, "--partitions", count)
    )


async def delete(page_request: PageRequest) -> HttpResponse:
    """Preview the deletion of a topic, or delete it once the person has typed its name."""
    name = page_request.value("topic")
    admin = await page_request.admin()
    if is_confirmed(page_request):
        if page_request.form.get("confirmation", "").strip() != name:
            raise HttpError(400, f"type the name of the topic ({name}) to delete it")
        with page_request.audited("delete topic", name):
            await admin.delete_topics([name])
        return redirect(path_to("topics", done="deleted"))
    page = await read_topic(page_request, name)
    preview = Preview(
        sentence=f"The topic {name} would be deleted.",
        action=path_to("topics", name, "delete"),
        button="Delete it with all records",
        back=path_to("topics", name),
        warnings=deletion_warnings(page, await _readers(admin, name)),
        confirmation=name,
        is_destructive=True,
    )
    return preview_page(page_request, preview, command("topics", "delete", name))


async def _readers(admin: Admin, topic: str) -> list[str]:
    """Return the groups whose members read a topic now. Share groups are left out.

    The list is empty if this person may not see the groups.
    """
    try:
        listed = await admin.list_groups(states=["Stable"])
        ids = [each.group_id for each in listed if each.group_type != "share"][:MAX_GROUPS]
        groups = await admin.describe_groups(ids) if ids else {}
    except KafkaError:
        return []
    return sorted(
        group.group_id
        for group in groups.values()
        if any(where.topic == topic for member in group.members for where in member.assignment)
    )
