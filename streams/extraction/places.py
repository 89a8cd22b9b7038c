"""Names of places in Chinese text: is this word a city, a province, a country.

Called by the Chinese rules, because Chinese does not write names in capitals. The divisions come from ``python-stdnum``,
the rest from ``streams/data/places.toml``.
"""

import re
import tomllib
from functools import lru_cache
from importlib import resources

_SUFFIX = re.compile(r"(?:市|省|县|区|镇|村|乡|州|盟|旗|自治区|新区)$")
_DIVISION = re.compile(r'^\s*(\S+)\s+(?:province|county)="([^"]+)"', re.MULTILINE)
_NO_PLACE = frozenset(
    {
        "城区",
        "郊区",
        "市区",
        "小区",
        "社区",
        "地区",
        "灾区",
        "这个城市",
        "城市",
        "农村",
        "乡村",
        "山区",
        "新区",
        "市辖区",
        "县",
    }
)


@lru_cache(maxsize=1)
def _places() -> frozenset[str]:
    raw = resources.files("stdnum").joinpath("cn/loc.dat").read_text(encoding="utf-8")
    names: set[str] = set()
    for code, listed in _DIVISION.findall(raw):
        for name in re.split(r"[,，;/()（）\[\]0-9\-\s]+", listed):
            if len(name) < 2 or name in _NO_PLACE:
                continue
            names.add(name)
            short = re.sub(r"(?:市|省|特别行政区)$|(?:壮族|回族|维吾尔)?自治区$", "", name)
            # Districts keep their suffix: 和平区 is a place, 和平 is a word.
            if len(short) >= 2 and (name.endswith(("市", "省", "自治区")) or len(code) == 2):
                names.add(short)
    world = tomllib.loads(resources.files("streams.data").joinpath("places.toml").read_text(encoding="utf-8"))["world"]
    return frozenset(names | set(world)) - _NO_PLACE


def is_place(word: str) -> bool:
    """Return whether ``word`` names a place: listed, made of two listed parts, or a name with 市, 县, 区, 镇 or 村."""
    if word in _NO_PLACE or not 2 <= len(word) <= 12:
        return False
    if word in _places():
        return True
    if re.fullmatch(r"[A-Z][A-Za-z .'-]+", word):
        return True
    if any(
        word[:cut] in _places() and (word[cut:] in _places() or _SUFFIX.search(word)) for cut in range(2, len(word) - 1)
    ):
        return True
    return len(word) >= 3 and _SUFFIX.search(word) is not None and not re.search(r"[这那哪我你他的个]", word)
