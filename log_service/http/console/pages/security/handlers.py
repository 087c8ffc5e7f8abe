"""The pages of users, ACLs and quotas, and their changes."""

from collections.abc import Mapping

from log_service.client.admin.access import (
    CLUSTER_NAME,
    DEFAULT_MECHANISM,
    AclBinding,
    AclFilter,
    ScramUser,
)
from log_service.client.admin.values import QuotaEntity
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.secrets import SecretText
from log_service.http.console.addresses import command, path_to
from log_service.http.console.forms import choice_of
from log_service.http.console.page_requests import PageRequest, redirect
from log_service.http.console.pages.security.view import (
    MAX_SHOWN_ACLS,
    OPERATION_ORDER,
    PATTERNS,
    PERMISSIONS,
    QUOTA_KEYS,
    RESOURCES,
    matrices,
    quota_rows,
    user_rows,
)
from log_service.http.console.previews import ChangeRow, Preview, is_confirmed, kept, preview_page
from log_service.http.console.rendering import UNKNOWN
from log_service.http.server.values import HttpError, HttpResponse
from log_service.security.sasl.credentials import SCRAM_MECHANISMS

DONE = {
    "user": "The password was set.",
    "removed": "The user's password was removed.",
    "acl": "The ACL was added.",
    "acl-removed": "The ACL was removed.",
    "quota": "The quota was changed.",
}
MECHANISMS = (DEFAULT_MECHANISM, *(each for each in SCRAM_MECHANISMS if each != DEFAULT_MECHANISM))
ACL_FIELDS = (
    "principal", "permission", "operation", "resource_type", "name", "pattern_type", "host",
)  # fmt: skip
MIN_PASSWORD = 8
NO_AUTHORIZER = (
    "The cluster has no authorizer: everybody may do everything, and no ACL can be added."
    " Set authorizer.class.name on all nodes first."
)


async def show_users(page_request: PageRequest) -> HttpResponse:
    """Show the users with passwords."""
    users = await (await page_request.admin()).describe_scram_users()
    return page_request.page(
        "users.html",
        title="Users",
        commands=(command("users", "list"),),
        users=user_rows(users),
        mechanisms=MECHANISMS,
        done=_done(page_request),
    )


def _done(page_request: PageRequest) -> str:
    return DONE.get(page_request.query.get("done", ""), "")


async def set_user(page_request: PageRequest) -> HttpResponse:
    """Give a user a password. The password is sent once, and shown on no page."""
    name = page_request.required("name").strip()
    mechanism = choice_of(page_request.form, "mechanism", MECHANISMS)
    password = page_request.form.get("password", "")
    if len(password) < MIN_PASSWORD:
        raise HttpError(400, f"a password has at least {MIN_PASSWORD} characters")
    if password != page_request.form.get("again", ""):
        raise HttpError(400, "the two passwords differ: type the same one twice")
    user = ScramUser(name=name, password=SecretText(password), mechanism=mechanism)
    with page_request.audited("set password", f"user {name} {mechanism}"):
        await (await page_request.admin()).set_scram_users([user])
        page_request.context.end_sessions_of(name)
    return redirect(path_to("security", "users", done="user"))


async def remove_user(page_request: PageRequest) -> HttpResponse:
    """Preview the removal of a user's password, or remove it if the person has confirmed it."""
    name = page_request.required("name")
    mechanism = choice_of(page_request.form, "mechanism", MECHANISMS)
    if is_confirmed(page_request):
        with page_request.audited("remove password", f"user {name} {mechanism}"):
            await (await page_request.admin()).remove_scram_users([(name, mechanism)])
            page_request.context.end_sessions_of(name)
        return redirect(path_to("security", "users", done="removed"))
    preview = Preview(
        sentence=f"The user {name} could not log in by {mechanism} any more.",
        action=path_to("security", "users", "remove"),
        button="Remove the password",
        back=path_to("security", "users"),
        fields=kept(page_request, "name", "mechanism"),
        warnings=("ACLs of the user stay.",),
        is_destructive=True,
    )
    return preview_page(
        page_request, preview, command("users", "remove", name, "--mechanism", mechanism)
    )


async def show_acls(page_request: PageRequest) -> HttpResponse:
    """Show who may do what, as a matrix for each principal."""
    search = page_request.query.get("q", "")[:250]
    note = ""
    try:
        bindings = await (await page_request.admin()).describe_acls()
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        bindings, note = [], NO_AUTHORIZER
    return page_request.page(
        "acls.html",
        title="ACLs",
        commands=(command("acls", "list"),),
        matrices=matrices(bindings[:MAX_SHOWN_ACLS], search=search),
        acl_count=len(bindings),
        is_cut=len(bindings) > MAX_SHOWN_ACLS,
        search=search,
        note=note,
        operations=OPERATION_ORDER,
        resources=RESOURCES,
        patterns=PATTERNS,
        permissions=PERMISSIONS,
        done=_done(page_request),
    )


def binding_of(form: Mapping[str, str]) -> AclBinding:
    """Return the ACL in a form.

    Raises:
        HttpError: 400, a field is missing, or is not one of its choices.
    """
    principal = form.get("principal", "").strip()
    kind, colon, user = principal.partition(":")
    if not (kind and colon and user):
        raise HttpError(400, f"the principal is {principal[:80]!r}: write User:NAME")
    resource_type = choice_of(form, "resource_type", RESOURCES)
    name = CLUSTER_NAME if resource_type == "cluster" else form.get("name", "").strip()
    if not name:
        raise HttpError(400, "name the resource, or write * for all of its kind")
    return AclBinding(
        principal=principal,
        permission=choice_of(form, "permission", PERMISSIONS),
        operation=choice_of(form, "operation", OPERATION_ORDER),
        resource_type=resource_type,
        name=name,
        pattern_type=choice_of(form, "pattern_type", PATTERNS),
        host=form.get("host", "").strip() or "*",
    )


async def add_acl(page_request: PageRequest) -> HttpResponse:
    """Preview a new ACL as a sentence, or add it if the person has confirmed it."""
    binding = binding_of(page_request.form)
    if is_confirmed(page_request):
        with page_request.audited("create ACL", str(binding)):
            await (await page_request.admin()).create_acls([binding])
        return redirect(path_to("security", "acls", done="acl"))
    preview = Preview(
        sentence="An ACL would be added.",
        action=path_to("security", "acls"),
        button="Add it",
        back=path_to("security", "acls"),
        rows=(ChangeRow(what="ACL", before=UNKNOWN, after=str(binding)),),
        fields=kept(page_request, *ACL_FIELDS),
    )
    return preview_page(page_request, preview, _acl_line("add", binding))


async def remove_acl(page_request: PageRequest) -> HttpResponse:
    """Preview the removal of an ACL, or remove it if the person has confirmed it."""
    binding = binding_of(page_request.form)
    if is_confirmed(page_request):
        exact = AclFilter(
            resource_type=binding.resource_type,
            name=binding.name,
            principal=binding.principal,
            operation=binding.operation,
            pattern_type=binding.pattern_type,
            host=binding.host,
            permission=binding.permission,
        )
        with page_request.audited("delete ACL", str(binding)):
            await (await page_request.admin()).delete_acls([exact])
        return redirect(path_to("security", "acls", done="acl-removed"))
    preview = Preview(
        sentence="An ACL would be removed.",
        action=path_to("security", "acls", "remove"),
        button="Remove it",
        back=path_to("security", "acls"),
        rows=(ChangeRow(what="ACL", before=str(binding), after=UNKNOWN),),
        fields=kept(page_request, *ACL_FIELDS),
        is_destructive=True,
    )
    return preview_page(page_request, preview, _acl_line("remove", binding))


def _acl_line(verb: str, binding: AclBinding) -> str:
    resource = {
        "cluster": ["--cluster"],
        "user": ["--user-principal", binding.name],
    }.get(binding.resource_type) or [f"--{binding.resource_type.replace('_', '-')}", binding.name]
    who = [f"--{binding.permission}-principal", binding.principal]
    where = [] if binding.host == "*" else [f"--{binding.permission}-host", binding.host]
    how = [] if binding.pattern_type == "literal" else ["--pattern", binding.pattern_type]
    return command("acls", verb, *resource, *how, *who, *where, "--operation", binding.operation)


async def show_quotas(page_request: PageRequest) -> HttpResponse:
    """Show the quotas of users, clients and addresses."""
    quotas = await (await page_request.admin()).describe_client_quotas()
    return page_request.page(
        "quotas.html",
        title="Quotas",
        commands=(command("quotas", "show"),),
        quotas=quota_rows(quotas),
        keys=QUOTA_KEYS,
        done=_done(page_request),
    )


async def change_quota(page_request: PageRequest) -> HttpResponse:
    """Preview a change of a quota, or set it if the person has confirmed it.

    An empty value removes the quota.
    """
    form = page_request.form
    entity, options = _entity_of(form)
    key = choice_of(form, "key", QUOTA_KEYS)
    value = _quota_of(form.get("value", "").strip())
    admin = await page_request.admin()
    changes = {entity: {key: value}}
    if is_confirmed(page_request):
        with page_request.audited("alter quota", f"{entity}: {key}={value}"):
            await admin.alter_client_quotas(changes)
        return redirect(path_to("security", "quotas", done="quota"))
    await admin.alter_client_quotas(changes, is_validated_only=True)
    before = (await admin.describe_client_quotas()).get(entity, {}).get(key)
    words = ["remove", key] if value is None else ["set", f"{key}={value:g}"]
    preview = Preview(
        sentence=f"A quota of {entity} would change.",
        action=path_to("security", "quotas"),
        button="Change it",
        back=path_to("security", "quotas"),
        rows=(ChangeRow(what=key, before=_shown(before), after=_shown(value)),),
        fields=kept(page_request, "user", "client_id", "ip", "key", "value"),
    )
    return preview_page(page_request, preview, command("quotas", *words, *options))


def _entity_of(form: Mapping[str, str]) -> tuple[QuotaEntity, list[object]]:
    """Return the quota entity in a form, and the options that name it on a command line.

    ``*`` means the default for all users, client ids or addresses.

    Raises:
        HttpError: 400, no entity is named, or an address together with a user or a client id.
    """
    given = {name: form.get(name, "").strip() for name in ("user", "client_id", "ip")}
    named = {name: "" if text == "*" else text for name, text in given.items() if text}
    if not named or ("ip" in named and len(named) > 1):
        raise HttpError(400, "name a user, a client id or both, or an address; * is the default")
    options: list[object] = []
    for name, text in named.items():
        word = name.replace("_", "-")
        options += [f"--{word}", text] if text else [f"--default-{word}"]
    return QuotaEntity(**named), options


def _quota_of(text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise HttpError(400, f"the quota is {text[:40]!r}: write a positive number, or nothing")
    return value


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:,.10g}"
