"""What the user wants from the agent: answer style, contact preference, standing instructions, contact data given.

Owns the patterns of wishes and of contact data in both languages. Called by ``rules`` for each clause. A one-off task
("write a short text") is not a wish about answers.
"""

import re
from collections.abc import Iterator

from streams.extraction.facts import EXPLICIT, USER, Fact
from streams.text.masking import Span

_TASK = re.compile(
    r"帮我(?:写|做|查|找|翻译|总结)|写一[篇段封个份]|介绍一?下|总结一下|翻译|解释一?下(?!时)|^(?:请)?(?:详细|简单|简要)(?:地)?(?:说|介绍|讲|解释|描述)"
    r"|\b(?:write|draft|translate|summari[sz]e|explain|describe) (?:me )?(?:a|an|the|this|how|what|why)\b",
    re.IGNORECASE,
)
_STYLE = re.compile(
    r"(?P<zh1>(?:别|不要|不用|不必|请勿)(?:再)?(?:写|说|讲|回答|回复|弄|搞|给我|发)?(?:得|的)?(?:太|那么|这么|过于|再|这样)*(?:啰嗦|罗嗦|长|复杂|专业|官方|客气|正式|多废话|废话|绕弯子|冗长|拐弯抹角|客套|机械|细|简略|多))"
    r"|(?P<zh2>(?:回答|回复|说话|答案|内容|语气|说|讲|写|聊天|以后|尽量|希望你?|请|麻烦|喜欢)+(?:的时候|时|得|的|要|请|能|可以|都|尽量|更|稍微|你|我|给我|比较|些|一点)*(?:简短|简洁|简单|精简|简明|言简意赅|详细|具体|直接|直白|口语化?|通俗易?懂?|幽默|轻松|正式|温柔|活泼|条理清晰|直接一点)(?:一?[点些]儿?|明了)?(?:的回答|的回复)?)$"
    r"|(?P<zh3>(?:别|不要|不用|少)(?:用|加|发|带)(?:太多)?(?:表情符?号?|emoji|英文|术语|专业术语|感叹号|网络用语|敬语|列表|markdown))"
    r"|(?P<zh4>(?:请)?(?:用|按|分|以)(?:要点|列表|表格|点|条|步骤|markdown)(?:的?(?:形式|方式))?(?:来)?(?:回答|回复|列出|说明|说|写|呈现))"
    r"|(?P<zh5>(?:先|直接)(?:说|给|讲)(?:我)?(?:结论|重点|答案|结果))"
    r"|(?P<en1>(?:keep|make) (?:it|this|things|(?:all )?(?:your|the) (?:answers?|replies|responses|reply|messages|explanations))(?: (?:very|more|as|a bit|nice and))? (?:short|brief|concise|simple|casual|formal|friendly|detailed|to the point)(?:er)?(?: .{0,30})?)$"
    r"|(?P<en2>(?:be|answer|reply|respond|write|talk|explain)(?: (?:me|things))?(?: (?:more|a bit|a little|as|in|with))* ?(?:brief(?:ly)?|concise(?:ly)?|short (?:answers|sentences|replies)|in detail|detailed|casual(?:ly)?|formal(?:ly)?|direct(?:ly)?|bullet points|plain english|simple (?:words|terms|language)|to the point))\b"
    r"|(?P<en3>(?:do not|don't|no|please no|without|avoid|stop using|skip)(?: (?:use|using|add|be|write|the|any|so|too))* (?:emojis?|jargon|small talk|verbose|wordy|long[- ]winded|long answers|formal|bullet points|exclamation marks|filler))\b"
    r"|(?P<en4>(?:I (?:prefer|like|want|would like)) (?:short|brief|concise|detailed|direct|simple|longer|shorter) (?:answers?|replies|responses|explanations))",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(
    r"(?:用|拿|以|说|讲)(?P<zh>中文|英文|英语|汉语|普通话|粤语|日语|日文|法语|德语|韩语|西班牙语)(?:来)?(?:回答|回复|跟我|和我|交流|说|聊|写|$)"
    r"|\b(?:answer|reply|respond|speak|talk|write|communicate)(?: (?:to|with) me)?(?: always| only)? in (?P<en>English|Chinese|Mandarin|French|German|Spanish|Japanese|Korean|Italian|Portuguese|Russian)\b",
    re.IGNORECASE,
)
_ONE_LANGUAGE_TASK = re.compile(
    r"用(?:中文|英文|英语|日语)(?:怎么|如何)|翻译|怎么说|写一|how do you say", re.IGNORECASE
)
_CONTACT = re.compile(
    r"(?P<zh1>(?:别|不要|不用|请勿|少)(?:再|总|老)?(?:给我)?(?:打|发|来)(?:我)?(?:的)?(?:太多)?(?:电话|短信|邮件|微信|消息)(?:给我)?)"
    r"|(?:有事|请|可以|以后|尽量|最好|麻烦|直接|优先|都|就|希望)+(?:直接|用|通过|给我|在)*(?P<zh2>(?:发|打|用|走)?(?:个)?(?:短信|邮件|微信|电话|邮箱)(?:上?联系我?|找我|通知我?|给我|沟通)?)(?:就好|就行|即可|吧)?$"
    r"|(?:用|通过)(?P<zh3>短信|邮件|微信|电话|邮箱)(?:和我|跟我|来)?(?:联系|沟通|通知)"
    r"|(?P<en1>(?:do not|don't|never|stop|please do not)(?: ever)? (?:call(?:ing)?|phone|phoning|ring|text(?:ing)?|e-?mail(?:ing)?|message|messaging) me)"
    r"|(?:please |just |only |it is best to |better to |you can )*(?P<en2>(?:contact|reach|e-?mail|text|message|call) me (?:by|via|through|on|over|instead)(?: (?:e-?mail|phone|text|sms|wechat|whatsapp))?(?: instead of .{1,20}| only)?)\b",
    re.IGNORECASE,
)
_INSTRUCTION = re.compile(
    r"^(?:请你?|麻烦你?|希望你)?(?P<zh1>(?:以后|今后|从现在起|从今以后|每次|永远|下次)(?:回答|回复|说话|推荐|点餐)?(?:的时候|时)?[，,]?(?:都|请|你|也)*(?:别|不要|不用|必须|要|只|记得|先|提醒|用|叫|避免|尽量).{1,40})$"
    r"|^(?P<zh2>(?:请)?(?:不要|别)(?:编造|瞎编|乱编|胡说|猜测|瞎猜).{0,20}|不知道就(?:直接)?说不知道)$"
    r"|^(?:please )?(?P<en1>(?:always|never|from now on,?|in (?:the )?future,?|every time|next time,?) (?!be\b|was|am|is|have|had|been|would|could|mind|know|thought|wanted|liked|loved|saw|went|got|I\b).{3,90})$"
    r"|^(?:please )?(?P<en2>(?:do not|don't) (?:make (?:things|stuff|anything) up|invent|guess|fabricate)\b.{0,40})$",
    re.IGNORECASE,
)
_OTHERS_CONTACT = re.compile(
    r"他的|她的|同事的|朋友的|客服|餐厅|酒店|公司的|\b(?:his|her|their|its)\b|hotel|restaurant|customer service",
    re.IGNORECASE,
)
_OWN_CONTACT = re.compile(
    r"我的?(?:新|备用|常用)?(?:手机号?码?|电话|号码|联系方式|邮箱|邮件|车牌|会员|卡号|就诊)|(?:联系|打给|打|call|text|reach|e-?mail|contact|message)\s*我|发到我|发给我|\bmy\b|\b(?:call|text|reach|e-?mail|contact|message) me\b|^(?:手机号?|电话|邮箱|email|phone|tel)",
    re.IGNORECASE,
)
_REFERENCE_KIND = re.compile(r"会员|就诊|病历|客户|卡号|member|patient|customer|visit|account", re.IGNORECASE)


def wishes_of(text: str, opened: str, language: str) -> Iterator[Fact]:
    """Yield style, language, contact and standing wishes of a clause; ``opened`` is the clause without fillers."""
    if _TASK.search(text):
        return
    spoken = _LANGUAGE.search(text)
    if spoken and not _ONE_LANGUAGE_TASK.search(text):
        value = next(group for group in spoken.groups() if group)
        yield _wish("answer_language", value, language, confidence=EXPLICIT)
        return
    for attribute, pattern in (
        ("contact_preference", _CONTACT),
        ("answer_style", _STYLE),
        ("instruction", _INSTRUCTION),
    ):
        match = pattern.search(opened)
        if match is None:
            continue
        value = next(group for group in match.groups() if group).strip(" ，,。.!！")
        yield _wish(attribute, value, language)
        return


def _wish(attribute: str, value: str, language: str, confidence: float = 0.85) -> Fact:
    return Fact(
        attribute=attribute,
        value=value,
        language=language,
        type="interaction_preference",
        intent="request",
        confidence=confidence,
    )


def contacts_of(text: str, language: str, subject: str, spans: tuple[Span, ...]) -> Iterator[Fact]:
    """Yield the contact data a clause gives about its subject; business numbers and other people's data give none."""
    for span in spans:
        if span.kind not in {"phone", "email", "plate", "reference"} or span.value not in text:
            continue
        if subject == USER and (_OTHERS_CONTACT.search(text) or not _OWN_CONTACT.search(text)):
            continue
        if span.kind == "reference" and not _REFERENCE_KIND.search(text):
            continue
        attribute = "member_number" if span.kind == "reference" else span.kind
        yield Fact(attribute=attribute, value=span.value, language=language, subject=subject, confidence=EXPLICIT)
