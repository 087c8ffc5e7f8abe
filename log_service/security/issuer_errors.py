"""What a failed exchange with an issuer of tokens is called. A module of its own: logins without an issuer need no HTTP."""


class IssuerError(OSError):
    """An exchange failed. ``may_pass``: a later one may succeed."""

    def __init__(self, text: str, *, may_pass: bool) -> None:
        super().__init__(text)
        self.may_pass = may_pass
