"""The name in a certificate, exactly as Java writes it: ``X500Principal.getName()``, RFC 2253.

ACLs name clients by this text, and mapping rules rewrite it. A text that differs from Java's in one
letter matches no ACL copied from Apache Kafka, and a DENY that does not match lets everybody in.
The text is therefore made from the DER, and not by a library that writes names differently.

Java differs from other libraries as follows. The parts come in reverse order, but the values of one
part keep the order of the DER. Only CN, L, ST, O, OU, C, STREET, DC and UID have names; every other
attribute is its number with the value's DER in hexadecimal. The bytes of every text are read as
UTF-8, whatever their type.

Invariants: lengths in the DER are checked before anything is sliced. Bytes that are not a name
raise ``ValueError``.
"""

from collections.abc import Iterator
from typing import NamedTuple

SEQUENCE, SET, OBJECT_IDENTIFIER, EXPLICIT_VERSION = 0x30, 0x31, 0x06, 0xA0
TEXT_TAGS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""The types that Java writes as text.

They are UTF8String, PrintableString, T61String, IA5String, GeneralString and BMPString.
"""
KEYWORDS = {
    bytes.fromhex("550403"): "CN",
    bytes.fromhex("550406"): "C",
    bytes.fromhex("550407"): "L",
    bytes.fromhex("550408"): "ST",
    bytes.fromhex("550409"): "STREET",
    bytes.fromhex("55040a"): "O",
    bytes.fromhex("55040b"): "OU",
    bytes.fromhex("0992268993f22c640119"): "DC",
    bytes.fromhex("0992268993f22c640101"): "UID",
}
ESCAPED = ',=+<>#;"\\'
BLANKS = " \r"


class Element(NamedTuple):
    """One element of DER: its tag, its content, and all its bytes."""

    tag: int
    content: bytes
    encoded: bytes


def subject_text(certificate: bytes) -> str:
    """Return the subject of an X.509 certificate in DER, as Java writes it.

    Raises:
        ValueError: the bytes are not a certificate.
    """
    fields = elements(_only(elements(certificate), SEQUENCE).content)
    parts = list(elements(_next(fields, SEQUENCE).content))
    first = 1 if parts and parts[0].tag == EXPLICIT_VERSION else 0
    if len(parts) < first + 5:
        raise ValueError("a certificate ends before its subject")
    return name_text(parts[first + 4].encoded)


def name_text(name: bytes) -> str:
    """Return an X.501 name in DER as Java writes it.

    Raises:
        ValueError: the bytes are not a name.
    """
    parts = list(elements(_only(elements(name), SEQUENCE).content))
    return ",".join(
        "+".join(_attribute_text(attribute) for attribute in _members(part))
        for part in reversed(parts)
    )


def elements(content: bytes) -> Iterator[Element]:
    """Yield the consecutive elements of DER.

    Raises:
        ValueError: a length goes beyond the end, or is invalid.
    """
    position = 0
    while position < len(content):
        start = position
        if len(content) - position < 2:
            raise ValueError("DER ends in the middle of an element")
        tag, length = content[position], content[position + 1]
        position += 2
        if length >= 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or len(content) - position < count:
                raise ValueError("an element of DER has an invalid length")
            length = int.from_bytes(content[position : position + count], "big")
            position += count
        if len(content) - position < length:
            raise ValueError("an element of DER goes beyond the end")
        yield Element(
            tag, content[position : position + length], content[start : position + length]
        )
        position += length


def _next(found: Iterator[Element], tag: int) -> Element:
    element = next(found, None)
    if element is None or element.tag != tag:
        raise ValueError(f"an element with tag {tag} is missing in DER")
    return element


def _only(found: Iterator[Element], tag: int) -> Element:
    element = _next(found, tag)
    if next(found, None) is not None:
        raise ValueError("there are bytes behind the end of DER")
    return element


def _members(part: Element) -> Iterator[Element]:
    if part.tag != SET:
        raise ValueError("a part of a name is not a set")
    return elements(part.content)


def _attribute_text(attribute: Element) -> str:
    fields = elements(attribute.content)
    oid, value = _next(fields, OBJECT_IDENTIFIER), next(fields, None)
    if value is None:
        raise ValueError("an attribute of a name has no value")
    keyword = KEYWORDS.get(oid.content)
    if keyword is None:
        return f"{_dotted(oid.content)}=#{value.encoded.hex()}"
    is_text = value.tag in TEXT_TAGS
    return f"{keyword}={_escaped(value.content) if is_text else '#' + value.encoded.hex()}"


def _dotted(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an object identifier in DER is empty")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _escaped(content: bytes) -> str:
    """Escape a value as RFC 2253 requires, including blanks at either end."""
    text = content.decode("utf-8", errors="replace")
    text = "".join(
        "\\" + letter if letter in ESCAPED else "\\00" if letter == "\0" else letter
        for letter in text
    )
    lead, trail = len(text) - len(text.lstrip(BLANKS)), len(text.rstrip(BLANKS))
    return "".join(
        "\\" + letter if index < lead or index >= trail else letter
        for index, letter in enumerate(text)
    )
