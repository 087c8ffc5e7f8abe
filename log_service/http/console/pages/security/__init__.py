"""The area of security: users, ACLs as a matrix, and quotas.

- ``view``: the pages as values. ``handlers``: the requests.
"""

from pathlib import Path

from log_service.http.console.areas import Area, PageRoute
from log_service.http.console.pages.security import handlers


def area() -> Area:
    """Return the area."""
    rows = (
        ("GET", "/security", handlers.show_acls),
        ("GET", "/security/acls", handlers.show_acls),
        ("POST", "/security/acls", handlers.add_acl, handlers.show_acls),
        ("POST", "/security/acls/remove", handlers.remove_acl),
        ("GET", "/security/users", handlers.show_users),
        ("POST", "/security/users", handlers.set_user, handlers.show_users),
        ("POST", "/security/users/remove", handlers.remove_user),
        ("GET", "/security/quotas", handlers.show_quotas),
        ("POST", "/security/quotas", handlers.change_quota, handlers.show_quotas),
    )
    return Area(
        name="security",
        label="Security",
        path="/security",
        routes=tuple(
            PageRoute(method=method, path=path, handler=handler, form=form[0] if form else None)
            for method, path, handler, *form in rows
        ),
        templates=Path(__file__).parent / "templates",
    )
