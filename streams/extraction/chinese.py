"""The Chinese rule table: what a clause says about somebody.

Owns the patterns of statements (names, places, jobs, family, tastes, health). Called by ``rules`` for each clause that is
not a question, quotation or supposition. Returns facts without times; commitments and orders have files of their own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from streams.extraction.facts import EXPLICIT, HEDGED, PLAIN, USER, Fact, person_by_word, subject_label
from streams.extraction.places import is_place
from streams.extraction.values import clean_chinese, list_chinese, usable_chinese
from streams.text.times_chinese import CHINESE_TIME

_FILLER = re.compile(
    r"^(?:嗯+|哦+|噢|恩|啊|唉|哈哈+|嘿|嗨|你好|您好|对了|对|是的|好的|当然|不对|不是|错了|那个|顺便(?:说一?下|说一?句|提一?下)?|另外|还有|而且|但是?|不过|可是|其实|实际上|因为|所以|然后|就是说?"
    r"|说实话|老实说|我跟你说|跟你说|告诉你|你知道(?:的)?|记住|记一?下|请记住|更正|更正一下|补充一下|准确(?:地)?说|我说错了|说错了|我记错了|记错了|抱歉|自我介绍一下|介绍一下自己)+[，,\s]*"
)
_ADVERB = r"(?:也|都|还|就|又|才|却|现在|目前|如今|平时|平常|一直|从小|最近|近来|特别|非常|十分|很|超级?|真的?|比较|挺|最|蛮|有点儿?|有些|其实|已经|通常|经常|常常?|总是|本来|可能|大概|好像|似乎|应该|或许|也许|确实|从来|向来|尤其|更|相当|格外|极其|太|老|今天|这几年|一般|主要|当然|真心|本人|自己|以前|曾经|之前|过去|小时候|原来|不知道为什么)*"
_HAS_ADVERB = re.compile(rf"^{_ADVERB}")
_LEADING_ADVERB = re.compile(
    r"^(?:最近|近来|目前|现在|如今|平时|平常|可能|好像|大概|似乎|应该是?|也许|或许|一直以来|不知道为什么|从小|以前|曾经|之前|小时候|其实|这几天|这段时间)+(?=我|他|她|妈|爸|搬|住|在|喜|爱)"
)
_OTHERS = re.compile(r"^(?:你|您|他们|她们|它们|我们公司|大家|人们|有人|别人|很多人|谁|咱)")
_REPORTED = re.compile(
    r"(?:知道|听说|觉得|认为|以为|说|记得)(?:他|她|它|别人|人家)|(?:说|问|觉得|以为|认为|猜|记得)我|[说问]过我"
)
_SURNAMES = "赵钱孙李周吴郑王冯陈褚卫蒋沈韩杨朱秦尤许何吕施张孔曹严华金魏陶姜戚谢邹喻柏窦章云苏潘葛范彭郎鲁韦昌马苗凤方俞任袁柳唐罗薛伍余米贝姚孟顾尹江钟宫梁宋庞熊项祝董杜阮蓝季贾路娄童颜郭梅盛林刁徐邱骆高夏蔡田樊胡凌霍虞万支柯管卢莫房裘解应宗丁宣邓郁单洪包诸左石崔吉龚程嵇邢裴陆荣翁荀甄曲封靳段焦谷车侯全班仰仲宁仇栾厉武符刘景詹龙叶幸司黎白蒲邰赖卓蔺屠池乔阎文巩聂晁关查游权逯盖益桓公欧"
_NAME = r"(?:[\u4e00-\u9fff·]{2,4}|[A-Z][A-Za-z'-]{1,20}(?: [A-Z][A-Za-z'-]{1,20}){0,2}|[a-z]{2,15})"
_JOB = re.compile(
    r"(?:师|员|家|者|医生|护士|学生|教授|顾问|总监|经理|主管|厨师|司机|店主|老板|程序员|博士|研究生|本科生|大学生|高中生|初中生|教练|编辑|翻译|记者|导游|警察|公务员|自由职业|助理|秘书|保安|保姆|工人|农民|军人|士兵|法官|检察官|演员|歌手|作家|画家|博主|主播|前端|后端|全栈|测试|产品|运营|开发|设计|销售|客服|财务|会计|出纳|人事|行政|市场|外贸|电商|自媒体|金融|投资|咨询|教育|算法|架构|运维|科研|研究|策划|采购|物流|代购|建筑|装修|实习生|合伙人|创始人|CEO|CTO|HR|数据分析|医药代表|飞行员|空姐|工程|程序|码农|医疗|法律|律师|公关|摄影|编程|投行|审计)$"
)
_NOT_JOB = re.compile(
    r"^(?:作业|饭|菜|梦|运动|实验|手术|好|到|什么|这|那|爱好者)|爱好者$|患者$|受害者$|单身|大家|一家|独生|家$(?<!作家)(?<!画家)(?<!专家)(?<!科学家)(?<!艺术家)(?<!音乐家)(?<!企业家)"
)
_ORGANISATION = re.compile(
    r"(?:公司|集团|银行|医院|学校|大学|学院|中学|小学|研究所|研究院|事务所|工厂|厂|酒店|餐厅|店|局|部门|机构|出版社|报社|电视台|工作室|政府|法院|协会|实验室|幼儿园)$"
)
_SCHOOL = re.compile(
    r"(?:大学|学院|中学|小学|高中|初中|一中|附中)$|^(?:清华|北大|复旦|浙大|交大|上交|南大|武大|中科大)$"
)
_COUNT = r"(?:[一二两三四五六七八九]|\d{1,2})"


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern on the rest of a clause (after subject and adverbs); the group ``v`` is the value."""

    attribute: str
    pattern: re.Pattern[str]
    many: bool = False
    negated: bool = False
    confidence: float = PLAIN
    check: str = ""


def _rule(attribute: str, pattern: str, **settings: object) -> Rule:
    return replace(Rule(attribute, re.compile(pattern)), **settings)  # type: ignore[arg-type]


_NEVER_NAME = r"(?!了|他|她|你|它|我|车|人|外|做|什么|啥|不|醒|过|个|大家|这|那|一|朋友|同学|服务|救护)"
_RULES: tuple[Rule, ...] = (
    _rule("name", rf"(?:的)?(?:名字|姓名|全名|大名|真名)?(?:叫做?|是叫|就叫|名叫|名字是|姓名是|全名是)(?P<v>{_NEVER_NAME}{_NAME})$", confidence=EXPLICIT, check="name"),
    _rule("name", rf"的?(?:名字|姓名|全名|大名|真名)(?:叫做?|是)?(?P<v>{_NAME})$", confidence=EXPLICIT, check="name"),
    _rule("birthday", r"(?:的)?生日(?:是|在|为)?(?:农历|阴历)?(?P<v>(?:\d{4}年)?(?:\d{1,2}|[一二三四五六七八九十]{1,3})月(?:\d{1,2}|[一二三四五六七八九十]{1,3})[日号]?|\d{4}-\d{1,2}-\d{1,2})", confidence=EXPLICIT),
    _rule("birthday", r"(?:是)?(?:出生于|生于|出生在)?(?P<v>\d{4}年\d{1,2}月\d{1,2}[日号]?)(?:出生|生)?(?:的)?$", confidence=EXPLICIT),
    _rule("birthday", r"(?:是)?(?:出生于|生于)?(?P<v>(?:19|20)?\d{2}年)(?:出生|生)?的?$", confidence=EXPLICIT),
    _rule("age", r"(?:的?年龄是|今年|已经|快|刚满?|满)*(?P<v>\d{1,3}|[一二三四五六七八九十]{1,3})岁(?:半|多)?$", confidence=EXPLICIT),
    _rule("age", r"的?年龄(?:是)?(?P<v>\d{1,3})$", confidence=EXPLICIT),
    _rule("hometown", r"(?:的)?(?:老家|家乡|祖籍)(?:是|在)?(?P<v>[\u4e00-\u9fffA-Za-z]{2,12})(?:的)?$", check="place"),
    _rule("hometown", r"(?:是)?(?:来自|出生在|出生于|生在)(?P<v>[\u4e00-\u9fffA-Za-z]{2,12}?)(?:的)?$", check="place"),
    _rule("hometown", r"(?:在)(?P<v>[\u4e00-\u9fff]{2,8})(?:长大|出生)的?$", check="place"),
    _rule("hometown", r"是(?P<v>[\u4e00-\u9fff]{2,8})人$", check="place"),
    _rule("address", r"(?:的)?(?:家庭|收货|住)?(?:地址|住址)(?:是|在|改成了?|换成了?|为)(?P<v>.{4,60})$", confidence=EXPLICIT),
    _rule("address", r"(?:住在|搬到了?|家在)(?P<v>[\u4e00-\u9fff]{2,20}(?:路|街|大道|巷|弄|胡同)\d+.{0,20})$", confidence=EXPLICIT),
    _rule("city", r"(?:人)?(?:住在?|定居在?|居住在|常住|生活在|搬到了?|搬来了?|搬去了?|搬家?到了?|搬家去了?|移居到?|迁到|落户|调到了?|(?:从.{1,8})(?:搬到|搬来|搬去|调到)了?)(?P<v>[\u4e00-\u9fffA-Za-z ]{2,14}?)(?:市区|这边|那边)?(?:(?:生活|居住|工作|定居|上班|住|做|当|读|念).*)?了?(?:\d+年|[一二三四五六七八九十几两多]+年)?$", check="place"),
    _rule("city", r"在(?P<v>[\u4e00-\u9fffA-Za-z ]{2,12}?)(?:生活|定居|住|居住|租房|买了?房)(?:了.*)?$", check="place"),
    _rule("city", r"(?:的)?家(?:现在)?(?:在|住)(?P<v>[\u4e00-\u9fff]{2,12})$", check="place"),
    _rule("city", r"人?(?:现在|目前)?在(?P<v>[\u4e00-\u9fff]{2,8})$", check="city", confidence=0.7),
    _rule("work_at", r"(?:是)?在(?P<p>[\u4e00-\u9fffA-Za-z]{2,14}?)(?:的一?家?(?:公司)?)?(?:做|当|担任|从事|搞|干|任)(?P<v>[\u4e00-\u9fffA-Za-z+ ]{1,14}?)(?:的?工作)?的?$"),
    _rule("work_at", r"(?:是)?在(?P<p>[\u4e00-\u9fffA-Za-z ]{2,16}?)(?:上班|工作|任职|就职|实习|打工)(?:了.*)?的?(?P<v>)$"),
    _rule("work_at", r"(?:刚)?(?:跳槽到了?|入职了?|加入了?|就职于)(?P<p>[\u4e00-\u9fffA-Za-z]{2,16}?)(?:做|当)?(?P<v>[\u4e00-\u9fffA-Za-z]{0,10})$"),
    _rule("school", r"(?:是)?(?:毕业于|就读于|在)(?P<v>[\u4e00-\u9fffA-Za-z]{2,14}?)(?:读|念|上|毕业)?(?:书|大学|研究生|研|本科|博士|硕士|学|高中|大[一二三四])*(?:的)?$", check="school"),
    _rule("major", r"(?:是)?(?:学|读)(?P<v>[\u4e00-\u9fff]{2,10})(?:专业的?|的)$"),
    _rule("major", r"的?专业是(?P<v>[\u4e00-\u9fff]{2,10})$"),
    _rule("job", r"的?(?:职业|工作|本职工作|岗位)(?:是|为)(?:一?[名个位])?(?P<v>.{2,16})$"),
    _rule("job", r"(?:是|成为|成了|当上?了?)(?:一?[名个位])?(?P<v>[\u4e00-\u9fffA-Za-z+ ]{2,14}?)$", check="job"),
    _rule("job", r"(?:是)?(?:做|从事|干|当)(?P<v>[\u4e00-\u9fffA-Za-z+ ]{2,12}?)(?:这一?行|工作|行业|相关)?的?$", check="job"),
    _rule("job", r"(?:转行|转岗|改行)(?:去)?(?:做|当|到|成)了?(?P<v>[\u4e00-\u9fffA-Za-z+ ]{2,12}?)$"),
    _rule("gender", r"是(?:一?[个名位])?(?P<v>男生|女生|男的|女的|男性|女性|男孩|女孩|男人|女人)$"),
    _rule("marital_status", r"(?:是)?(?P<v>已婚|未婚|单身|离异|离婚|结婚|订婚)(?:的|了|状态)?(?:\d+年|[一二三四五六七八九十两几]+年)?$"),
    _rule("family_member", rf"(?:家里)?有(?P<v>{_COUNT}个?[^的]{{0,4}}(?:女儿|儿子|孩子|小孩|宝宝|哥哥|弟弟|姐姐|妹妹|兄弟|姐妹|双胞胎|侄子|侄女|外甥))(?:了)?$"),
    _rule("family_member", r"(?:家里)?有(?P<v>女儿|儿子|孩子|老婆|老公|女朋友|男朋友|哥哥|弟弟|姐姐|妹妹)了?$"),
    _rule("pet", rf"(?:家里)?(?:养了?|有|领养了)(?P<v>(?:{_COUNT}[只条个匹])?.{{0,6}}?(?:猫咪?|狗狗?|犬|兔子?|鸟|鹦鹉|仓鼠|乌龟|鱼|金毛|柯基|布偶|泰迪|哈士奇|拉布拉多|英短|美短)(?:，?(?:名字)?叫.{{1,6}})?)$"),
    _rule("owns", rf"(?:有|买了|开的?是?)(?P<v>{_COUNT}?[辆台部套架](?!$)[\u4e00-\u9fffA-Za-z0-9 ]{{1,14}}|特斯拉.{{0,6}})$"),
    _rule("allergic_to", r"(?:是)?(?:对|吃)(?P<v>.{1,24}?)(?:都)?(?:会)?(?:严重|轻微|重度|轻度)?(?:不|没有?)过敏$", many=True, negated=True, confidence=EXPLICIT),
    _rule("allergic_to", r"(?:是)?(?:对|吃|一吃|一碰|碰)(?P<v>.{1,24}?)(?:也|都)?(?:会|就)?(?:严重|轻微|重度|轻度|非常|有点儿?|有些?)?过敏(?:的|了)?$", many=True, confidence=EXPLICIT),
    _rule("allergic_to", r"(?:有)?(?P<v>花生|海鲜|青霉素|牛奶|鸡蛋|坚果|花粉|尘螨|芒果|虾|蟹|虾蟹|贝类|大豆|小麦|麸质|头孢|酒精|猫毛|狗毛|腰果|乳糖)过敏(?:症|史)?(?:的|了)?$", many=True, confidence=EXPLICIT),
    _rule("allergic_to", r"的?过敏原是(?P<v>.{1,20})$", many=True, confidence=EXPLICIT),
    _rule("health_condition", r"(?:患有|得了|查出了?|确诊了?|有)(?P<v>[\u4e00-\u9fff]{0,6}(?:高血压|糖尿病|哮喘|心脏病|抑郁症|焦虑症|胃病|胃炎|关节炎|偏头痛|甲亢|甲减|痛风|贫血|鼻炎|颈椎病|腰椎间盘突出|近视|失眠症?|湿疹|癌症|高血脂|脂肪肝))$"),
    _rule("diet", r"(?:是)?(?:一?个)?(?P<v>素食者|素食主义者|吃素|吃全素|纯素|清真|戒糖|生酮饮食|低碳饮食|蛋奶素)(?:的|了)?$"),
    _rule("dislikes", r"(?:不(?:太|是很|怎么|大|再|是特别|那么)?(?:喜欢|爱|想要|感兴趣|习惯)|讨厌|受不了|反感|厌恶|最烦|很烦|烦|痛恨|恨|怕(?=(?:吃)?(?:辣|冷|热|黑|高|狗|猫|虫子?|蛇|蟑螂|打针|吵|水|晕车)$)|对(?=.{1,12}(?:不感兴趣|没兴趣|无感)))(?P<v>.{1,40}?)(?:了|不感兴趣|没兴趣|无感)?$", many=True),
    _rule("avoids", r"(?:从?不|不能|不可以|不敢|戒了?)(?P<v>(?:吃|喝|抽|碰|沾)(?:太)?[\u4e00-\u9fff、和]{1,16}|(?:烟|酒|糖|咖啡|奶茶)(?=了?$))(?:的|了)?$", check="avoids"),
    _rule("accepts", r"(?:能|可以)接受(?P<v>.{1,20})$", many=True),
    _rule("prefers", r"(?:更?(?:偏好|偏爱|倾向于?|青睐)|宁愿|宁可|更喜欢|更爱)(?P<v>.{1,40}?)$", many=True),
    _rule("likes", r"(?:喜欢上?了?|喜爱|热爱|酷爱|钟爱|爱上了?|迷上了?|痴迷于?|沉迷于?|爱(?=[看吃喝玩听打跑唱画读喝运爬游骑养做旅健])|对(?=.{1,14}(?:感兴趣|有兴趣|很有热情))|是(?=.{1,12}(?:爱好者|迷|粉丝|控)$))(?P<v>.{1,60}?)(?:很|非常|特别|比较|挺|都|也)?(?:感兴趣|有兴趣|很有热情|爱好者|的?粉丝|迷(?=$))?$", many=True),
    _rule("likes", r"(?:喜欢|爱)的(?:[\u4e00-\u9fff]{1,6})?是(?P<v>.{1,30})$", many=True),
    _rule("likes", r"的?(?:兴趣爱好|业余爱好|爱好|兴趣|最爱)(?:是|有|包括|就是)(?P<v>.{1,60})$", many=True),
    _rule("likes", r"(?:的)?(?:喜欢的|最爱的|最喜欢的|爱吃的|爱喝的)[\u4e00-\u9fff]{1,6}是(?P<v>.{1,24})$", many=True),
    _rule("habit", r"(?:有|会在?)*(?P<v>(?:每天|每周|每个?周末|每晚|每个?月|每年|习惯).{2,24})$", check="habit"),
    _rule("learning", r"(?:开始|正在|在|刚开始|刚)+(?:自学|学习|学)(?:着|如何|怎么|习)?(?P<v>.{1,20})$", many=True),
    _rule("reading", r"(?:正在|在|开始)(?:看|读|追).{0,16}?(?P<v>《[^》]{1,30}》)", check="title"),
    _rule("speaks", r"(?:会|能)说?(?:一口流利的)?(?P<v>(?:英语|日语|法语|德语|西班牙语|韩语|粤语|俄语|意大利语|葡萄牙语|阿拉伯语|上海话|闽南语|四川话|中文|英文|日文)(?:[、和](?:英语|日语|法语|德语|西班牙语|韩语|粤语|俄语|中文|英文|日文))*)$", many=True),
    _rule("trait", r"(?:的)?(?:性格|个性)(?:是|比较|很|有点|偏)*(?P<v>[\u4e00-\u9fff]{2,8})$"),
    _rule("trait", r"是(?:一?个)?(?P<v>左撇子|独生子女?|内向的人?|外向的人?|夜猫子|工作狂|[EI][NS][TF][JP]|早起的人|社恐|路痴)$"),
    _rule("wechat", r"的?(?:微信号?|vx|VX)(?:是|号是|:|：)?(?P<v>[A-Za-z][A-Za-z0-9_-]{5,19})$", confidence=EXPLICIT),
)  # fmt: skip
_TOPIC_LIKE = re.compile(
    r"^(?P<v>[^我你他她]{2,20}?)我(?:也|都|还|一直|真的|是|就)*(?P<no>不(?:太|怎么|是很)?|讨厌)?(?:很|非常|特别|超|最|挺|比较)*(?:喜欢|爱|感兴趣)?(?:的|了)?$"
)
_NICKNAME = re.compile(
    r"^(?:你|您)?(?:可以|就|以后|也可以|请|都)*(?:叫|喊|称呼)我(?:为|作|做)?(?P<v>[^，。你他她它的了一起]{1,8}?)(?:就行|就好|即可|吧|好了|就可以)*了?$"
)
_SELF_NAME = re.compile(rf"^是(?P<v>[{_SURNAMES}][\u4e00-\u9fff]{{1,2}}|[小老阿][\u4e00-\u9fff])$")
_STOP_RULES = frozenset({"city", "hometown", "age", "birthday", "job", "name"})


@lru_cache(maxsize=1)
def _subject_pattern() -> re.Pattern[str]:
    words = "|".join(sorted(map(re.escape, person_by_word("zh")), key=len, reverse=True))
    return re.compile(
        rf"^(?:(?P<owner>我们家|我家|我|俺|咱|他|她|你|您)的?)?(?:(?P<kin>{words})(?P<named>(?<=[朋友同事同学室友闺蜜邻居])(?:[小老阿][\u4e00-\u9fff]|[A-Z][a-z]+))?)"
        rf"(?=[^们家店厂]|$)"
        rf"|^(?P<me>我(?:自己|本人|个人|这个?人)?)(?!们)(?:是|的)?(?=.)"
        rf"|^(?P<pronoun>他|她|它)(?![们的])|^(?P<name>[小老阿][\u4e00-\u9fff](?=[^是的时子师板][^师板]|是[一个]|的)|[A-Z][a-z]+(?=[\u4e00-\u9fff]))"
    )


@lru_cache(maxsize=256)
def opened(text: str) -> str:
    """Return the clause without fillers, times and adverbs that stand before its subject."""
    body = text
    while True:
        shorter = _FILLER.sub("", body)
        if time := CHINESE_TIME.match(shorter):
            shorter = shorter[time.end() :].lstrip("的，, ") or shorter
        if adverbs := _LEADING_ADVERB.match(shorter):
            shorter = shorter[adverbs.end() :]
        if shorter == body:
            return body
        body = shorter


def subject_of(text: str, carried: str | None, person: str | None) -> tuple[str | None, str]:
    """Return who a clause speaks about and the rest of it; ``None`` when it is somebody we cannot name.

    ``carried`` is the subject an omitted one continues, ``person`` whom 他 or 她 means.
    """
    body = opened(text)
    if _REPORTED.search(body):
        return None, body
    match = _subject_pattern().match(body)
    if match is None:
        return (None, body) if _OTHERS.match(body) else (carried, body)
    rest = body[match.end() :]
    if match["me"]:
        cut = len(match["me"])
        return USER, body[cut:]
    if match["pronoun"]:
        return person, rest
    if match["name"]:
        return f"person:{match['name']}", rest
    if match["owner"] in {"他", "她", "你", "您"}:
        return None, rest
    if match["named"]:
        return f"person:{match['named']}", rest
    return f"person:{person_by_word('zh')[match['kin']]}", rest


def facts_of(text: str, subject: str, rest: str, *, hedged: bool, past: bool) -> Iterator[Fact]:
    """Yield what a Chinese clause states about ``subject``; ``rest`` is the clause after its subject."""
    base = Fact(attribute="", value="", language="zh", subject=subject)
    if subject == USER and (nickname := _NICKNAME.match(opened(text))):
        yield replace(base, attribute="nickname", value=nickname["v"], confidence=EXPLICIT)
        return
    if (topic := _TOPIC_LIKE.match(opened(text))) and re.search(r"喜欢|爱|感兴趣|讨厌", text):
        attribute = "dislikes" if topic["no"] else "likes"
        for value in list_chinese(topic["v"]):
            yield replace(base, subject=USER, attribute=attribute, value=value)
        return
    stated = re.sub(r"[啊呀哦呢吧嘛哈啦哟～~!！。.]+$", "", rest)
    bare = stated[_HAS_ADVERB.match(stated).end() :]  # type: ignore[union-attr]
    found: list[Fact] = []
    if name := _SELF_NAME.match(bare):
        if not _JOB.search(name["v"]) and not is_place(name["v"]):
            found.append(replace(base, attribute="name", value=name["v"], confidence=EXPLICIT))
    if not found:
        for candidate in dict.fromkeys((stated, bare)):
            found = list(_apply(candidate, base))
            if found:
                break
    for fact in found:
        yield _qualified(fact, stated, hedged=hedged, past=past)


def _apply(rest: str, base: Fact) -> Iterator[Fact]:
    for rule in _RULES:
        match = rule.pattern.match(rest)
        if match is None:
            continue
        facts = list(_facts_of_match(rule, match, base))
        if facts:
            yield from facts
            return


def _facts_of_match(rule: Rule, match: re.Match[str], base: Fact) -> Iterator[Fact]:
    if rule.attribute == "work_at":
        yield from _work(match, base)
        return
    values = list_chinese(match["v"]) if rule.many else (clean_chinese(match["v"]),)
    for value in values:
        if rule.attribute == "avoids":
            if _passes("avoids", value):
                yield from _avoided(value, base)
            continue
        if value and (rule.many or _passes(rule.check, value)):
            yield replace(
                base, attribute=rule.attribute, value=value, negated=rule.negated, confidence=rule.confidence,
                intent="correct" if rule.negated else "inform",
            )  # fmt: skip


def _avoided(value: str, base: Fact) -> Iterator[Fact]:
    """``不吃香菜``: the thing is 香菜, the sentence keeps the verb."""
    verb = value[0] if value[0] in "吃喝抽碰沾" else ""
    for thing in list_chinese(value[len(verb) :]):
        told = (
            f"{subject_label(base.subject, 'zh')}不{verb}{thing}"
            if verb
            else f"{subject_label(base.subject, 'zh')}戒了{thing}"
        )
        yield replace(base, attribute="avoids", value=thing, sentence=told)


def _work(match: re.Match[str], base: Fact) -> Iterator[Fact]:
    place, job = clean_chinese(match["p"]), clean_chinese(match["v"])
    if job and (_NOT_JOB.search(job) or not _JOB.search(job)):
        return
    if is_place(place) and not _ORGANISATION.search(place):
        yield replace(base, attribute="city", value=place)
    elif usable_chinese(place) and not re.search(
        r"家里?$|^(?:一家|这|那|当前|目前|外面|外地|国外|办公室|公园|图书馆|教室)|考虑|找|想|换|努力|认真|忙|做|学",
        place,
    ):
        yield replace(base, attribute="employer", value=place)
    if job:
        yield replace(base, attribute="job", value=job)


def _passes(check: str, value: str) -> bool:
    match check:
        case "name":
            return not re.search(r"什么|怎么|[的了吗呢]$", value) and not re.fullmatch(
                r"(?:not|a|an|the|app|ai)", value
            )
        case "place":
            return is_place(value)
        case "city":
            return is_place(value) and not re.search(r"(?:国|省|东北|江南)$", value)
        case "school":
            return _SCHOOL.search(value) is not None
        case "job":
            return _JOB.search(value) is not None and _NOT_JOB.search(value) is None and usable_chinese(value)
        case "avoids":
            return not re.search(r"了解|起|惯|完|到|下|饱|亏|力|醋|惊|苦头", value)
        case "habit":
            return re.search(
                r"跑|练|读|看|喝|吃|走|睡|起床|运动|健身|游泳|瑜伽|冥想|写|学|骑|爬|打", value
            ) is not None and usable_chinese(value, 24)
        case "title":
            return True
    return usable_chinese(value, 60)


def _qualified(fact: Fact, clause: str, *, hedged: bool, past: bool) -> Fact:
    if hedged:
        fact = replace(fact, confidence=min(fact.confidence, HEDGED))
    if past and fact.attribute in {"city", "job", "employer"}:
        former = {"city": "city_before", "job": "job_before", "employer": "job_before"}[fact.attribute]
        return replace(fact, attribute=former)
    if past and fact.attribute in {"likes", "prefers", "habit"} and re.search(r"以前|曾经|过去|小时候|原来", clause):
        return replace(fact, negated=True, intent="correct")
    return fact
