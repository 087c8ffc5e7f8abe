"""The error of a failed exchange with a token issuer.

It has its own module because logins without an issuer need no HTTP.
"""


class IssuerError(OSError):
    """An exchange with an issuer failed.

    ``may_pass`` means that a later exchange may succeed.
    """

    def __init__(self, text: str, *, may_pass: bool) -> None:
        super().__init__(text)
        self.may_pass = may_pass
