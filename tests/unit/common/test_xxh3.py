"""XXH3 with 64 bits against values of the reference implementation (xxHash 0.8.3), one for each way that a length goes."""

import pytest

from log_service.common.xxh3 import xxh3_64

KNOWN = {
    0: 0x2D06800538D394C2,
    1: 0xC44BDFF4074EECDB,
    3: 0x5F4299FC161C9CBB,
    4: 0x60DAB036A58211F2,
    8: 0x3A1C2D7C85AF88F8,
    9: 0xE9612598145BB9DC,
    16: 0x8355E3A6F61770DB,
    17: 0x9EF341A99DE37328,
    128: 0x85C6174C7FF4C46B,
    129: 0xEC7642B431BA3E5A,
    240: 0x375A384D957FE865,
    241: 0x02E8CD95421C6D02,
    1024: 0xE5D78BAFA45B2AA5,
    1025: 0xE95C42288F28186E,
    1087: 0xFD3C95BB928139CE,
    1088: 0x1A848D807034C403,
    2048: 0x25339063DB861586,
    2049: 0x6C9600C0E506E2AE,
}


@pytest.mark.parametrize("size", KNOWN)
def test_hash_is_the_reference_implementations(size: int) -> None:
    assert xxh3_64(bytes(index % 251 for index in range(size))) == KNOWN[size]
