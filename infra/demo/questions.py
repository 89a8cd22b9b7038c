"""The questions that the demo asks of memory, and what a careful person would expect in the answer.

Pure data, called by ``engram demo``: ``expected`` must occur in the text of one of the hits.
"""

from msgspec import Struct


class Asked(Struct, frozen=True):
    """A question of one user, with a text that one of the answers must contain and one that none may."""

    tenant: str
    user: str
    question: str
    expected: str
    forbidden: str = ""


QUESTIONS: tuple[Asked, ...] = (
    Asked("acme", "xiaoming", "我叫什么名字？", "小明", "王小明"),
    Asked("acme", "xiaoming", "我对什么过敏？", "海鲜", "牛奶"),
    Asked("acme", "xiaoming", "我住在哪里？", "广州"),
    Asked("acme", "li.hua", "我喜欢什么？", "电影"),
    Asked("acme", "chen.wei", "我住在哪个城市？", "苏州", "杭州"),
    Asked("globex", "alice", "What am I allergic to?", "penicillin", "shellfish"),
    Asked("globex", "alice", "Where do I live?", "Manchester"),
    Asked("globex", "bob", "What music do I like?", "jazz", "pre-approved"),
    Asked("globex", "xiaoming", "我对什么过敏？", "牛奶", "花生"),
)
