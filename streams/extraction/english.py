"""The English rule table: what a clause says about somebody.

Owns the patterns of statements (names, places, jobs, family, tastes, health). Called by ``rules`` for each clause that is
not a question, quotation or supposition. Returns facts without times; commitments and orders have files of their own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from streams.extraction.facts import EXPLICIT, HEDGED, PLAIN, USER, Fact, person_by_word, sentence_of, subject_label
from streams.extraction.values import clean_english, list_english, usable_english

_FILLER = re.compile(
    r"^(?:(?:well|oh|ok|okay|hi|hello|hey|yes|yeah|yep|no|sure|so|and|but|also|actually|by the way|btw|anyway|honestly|to be honest|in fact|sorry|wait|hmm|um|uh|ah|haha|thanks|thank you|right|please note(?: that)?"
    r"|remember(?: that)?|note that|just so you know|fyi|for your information|you know|i think|i believe|i guess|i suppose|maybe|perhaps|probably|apparently|it seems(?: that)?|because|since|i said|i mean|correction|i meant"
    r"|as i said|first|then|now|currently|lately|recently|these days|nowadays|at the moment|today|yesterday|good (?:morning|afternoon|evening)|nice to meet you|there|friend|everyone|ai companion|besides|in addition|however|though|although|personally|normally)\b[,:!.]*\s*)+",
    re.IGNORECASE,
)
_CONTRACTIONS = (
    (re.compile(r"\b(I)['’]m\b", re.IGNORECASE), r"\1 am"),
    (re.compile(r"\b(I|we|they|you)['’]ve\b", re.IGNORECASE), r"\1 have"),
    (re.compile(r"\b(I|we|they|you|he|she)['’]d\b", re.IGNORECASE), r"\1 would"),
    (re.compile(r"\b(I|we|they|you|he|she)['’]ll\b", re.IGNORECASE), r"\1 will"),
    (re.compile(r"\b(he|she|it|that)['’]s\b", re.IGNORECASE), r"\1 is"),
    (re.compile(r"\b(we|they|you)['’]re\b", re.IGNORECASE), r"\1 are"),
    (re.compile(r"\bcan['’]?t\b|\bcannot\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon['’]t\b", re.IGNORECASE), "will not"),
    (re.compile(r"n['’]t\b", re.IGNORECASE), " not"),
    (re.compile(r"\bdont\b", re.IGNORECASE), "do not"),
)
_ADVERB = re.compile(
    r"\b(?:also|really|just|currently|now|still|always|usually|actually|absolutely|truly|especially|mostly|generally|quite|already|both|simply|deeply|particularly|definitely|honestly|very much|genuinely|normally|totally|severely|highly|very|so|too|recently|lately|finally|often|only|probably|maybe|perhaps|possibly|basically)\s+",
    re.IGNORECASE,
)
_NAME = r"[A-Za-z][\w'’-]{0,24}(?: [A-Z][\w'’.-]{0,24}){0,3}"
_NOT_NAME = re.compile(
    r"^(?:not|a|an|the|here|there|back|fine|good|great|ok|okay|sorry|sure|so|very|from|in|at|on|going|trying|looking|happy|glad|tired|new|just|your|my|it|what|that|this|currently|allergic|vegan|vegetarian|feeling|learning|single|married)\b",
    re.IGNORECASE,
)
_NATIONALITY = re.compile(
    r"^(?:[A-Z]\w+(?:ese|ish|ean|ian)|German|American|Mexican|Korean|African|French|Dutch|Swiss|Greek|Thai|Czech|Indian|Turk|Pole|Swede|Dane|Muslim|Christian|Jewish|Buddhist|Hindu|Catholic)$"
)
_JOB = re.compile(
    r"(?:\b(?:nurse|doctor|teacher|student|engineer|developer|programmer|designer|manager|lawyer|accountant|analyst|scientist|consultant|chef|cook|driver|pilot|writer|editor|journalist|artist|musician|photographer|architect|dentist|pharmacist|therapist"
    r"|researcher|professor|lecturer|director|founder|ceo|cto|salesperson|cashier|barista|waiter|waitress|bartender|plumber|electrician|mechanic|carpenter|farmer|firefighter|police officer|officer|soldier|paramedic|vet|veterinarian|librarian|translator|interpreter"
    r"|freelancer|entrepreneur|actor|actress|singer|dancer|model|coach|trainer|instructor|receptionist|secretary|assistant|intern|technician|biologist|chemist|physicist|economist|banker|trader|broker|realtor|nanny|stylist|hairdresser|tailor|surgeon|psychologist"
    r"|specialist|administrator|coordinator|recruiter|marketer|strategist|blogger|streamer|product owner|product manager|project manager|tester|sysadmin|devops|phd|postdoc|undergraduate|graduate|housewife|homemaker|retiree|clerk|guard|baker|butcher|judge|producer|animator|composer|novelist|poet|historian|mathematician|statistician|operator|supervisor|planner|guide|worker)s?\b)",
    re.IGNORECASE,
)
_PLACE = r"(?P<v>(?:the )?[A-Z][\w.'’-]*(?:,? (?:of |de |del |la |upon |and the )?[A-Z][\w.'’-]*){0,3})"
_NUMBER = r"(?:a|an|one|two|three|four|five|six|\d{1,2})"
_FOODS = r"peanuts?|tree nuts?|nuts?|shellfish|seafood|milk|dairy|eggs?|soy|wheat|gluten|pollen|dust|cats?|dogs?|latex|penicillin|bee stings?|fish|shrimp"


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern on the rest of a clause (after its subject, without adverbs); the group ``v`` is the value."""

    attribute: str
    pattern: re.Pattern[str]
    many: bool = False
    negated: bool = False
    confidence: float = PLAIN
    check: str = ""


def _rule(attribute: str, pattern: str, *, exact_case: bool = False, **settings: object) -> Rule:
    compiled = re.compile(pattern, 0 if exact_case else re.IGNORECASE)
    return replace(Rule(attribute, compiled), **settings)  # type: ignore[arg-type]


_BE = r"(?:am|is|are|was)"
_RULES: tuple[Rule, ...] = (
    _rule("name", rf"(?:full |first |real )?name is (?P<v>{_NAME})$", confidence=EXPLICIT, check="name"),
    _rule("name", rf"{_BE} (?:called|named) (?P<v>{_NAME})$", confidence=EXPLICIT, check="name"),
    _rule("nickname", rf"go(?:es)? by (?P<v>{_NAME})$", confidence=EXPLICIT, check="name"),
    _rule("birthday", r"birthday (?:is|falls)(?: on)? (?P<v>.{3,30})$", confidence=EXPLICIT, check="date"),
    _rule("birthday", rf"{_BE} born (?:on |in )?(?P<v>.*\d.*)$", confidence=EXPLICIT, check="date"),
    _rule("age", rf"{_BE} (?:turning )?(?P<v>\d{{1,3}})(?: years? old| yo| years of age)?$", confidence=EXPLICIT, check="age"),
    _rule("age", r"age is (?P<v>\d{1,3})$", confidence=EXPLICIT, check="age"),
    _rule("hometown", rf"(?:{_BE} (?:originally )?from|come(?:s)? from|(?:was |were )?born (?:and raised )?in|grew up in|hometown is) {_PLACE}", check="place", exact_case=True),
    _rule("address", r"(?:home |shipping |delivery |postal )?address is (?:now )?(?P<v>.{6,90})$", confidence=EXPLICIT),
    _rule("city_before", rf"(?:used to live in|lived in|was living in) {_PLACE}", check="place", exact_case=True),
    _rule("city", rf"(?:(?:have )?live(?:s|d)?(?: here)? in|{_BE} living in|{_BE} based in|reside(?:s)? in|(?:have |has )?moved (?:from [\w ]{{2,30}} )?(?:back )?to|(?:have |has )?relocated to|{_BE} located in|settled in) {_PLACE}", check="place", exact_case=True),
    _rule("employment", r"work(?:s|ed|ing)? as (?:an? )?(?P<v>.{2,60})$"),
    _rule("employment", rf"{_BE} working as (?:an? )?(?P<v>.{{2,60}})$"),
    _rule("employment", r"(?:job|profession|occupation) is (?:an? |as an? )?(?P<v>.{2,60})$", check="job"),
    _rule("employment", rf"(?:{_BE}|became|have become) an? (?P<v>.{{2,60}})$", check="job"),
    _rule("employer", r"(?:work(?:s)?|have worked|started|am working|is working|joined)(?: a new job)?(?: (?:at|for|with))? (?P<v>(?:an? |the )?[A-Z][\w&'’. -]{1,40}?)(?: (?:as|in|since|last|this|next|on) .*)?$", exact_case=True, check="employer"),
    _rule("job", r"(?:work(?:s)?|am working|is working) in (?P<v>[a-z][a-z &-]{2,30})$", exact_case=True),
    _rule("school", r"(?:study|studies|studied|am studying|is studying|graduated|go(?:es)?|went)(?: .{2,30})? (?:at|from|to) (?P<v>(?:the )?(?:University of [A-Z]\w+|[A-Z][\w' ]{1,30}(?:University|College|School|Institute)|MIT|Stanford|Harvard|Oxford|Cambridge))", exact_case=True),
    _rule("major", r"(?:major(?:ed|ing|s)? in|major is|am majoring in) (?P<v>.{3,40})$"),
    _rule("marital_status", rf"{_BE} (?P<v>married|single|divorced|engaged|widowed)\b", confidence=PLAIN),
    _rule("marital_status", r"(?:got|get|have been) (?P<v>married|divorced|engaged)\b"),
    _rule("family_member", rf"have (?P<v>{_NUMBER} (?:\w+[- ]){{0,2}}?(?:daughter|son|kid|child|brother|sister|sibling|niece|nephew|twin|grandchild|grandson|granddaughter|husband|wife|boyfriend|girlfriend)(?:s|ren)?(?: and {_NUMBER} (?:\w+ )?(?:daughter|son|brother|sister)s?)?)(?:\b.*)?$"),
    _rule("pet", rf"(?:have|own|adopted|got|has) (?P<v>{_NUMBER} (?:[\w-]+ ){{0,2}}?(?:dog|cat|puppy|kitten|rabbit|hamster|parrot|bird|horse|turtle|goldfish|golden retriever|labrador|poodle|corgi)s?(?: (?:named|called) [A-Z]\w+(?: and [A-Z]\w+)?)?)"),
    _rule("owns", r"(?:own(?:s)?|drive(?:s)?|bought|have bought) (?P<v>(?:an?|my|two|the) (?:[\w-]+ ){0,3}(?:car|bike|bicycle|motorcycle|house|apartment|flat|boat|piano|guitar|laptop|phone|camera|tesla|toyota|bmw|truck|van))\b"),
    _rule("allergic_to", rf"{_BE} not (?:actually )?allergic to (?P<v>.{{2,60}})$", many=True, negated=True, confidence=EXPLICIT),
    _rule("allergic_to", r"do(?:es)? not have an? (?P<v>.{2,40}?) allergy$", many=True, negated=True, confidence=EXPLICIT),
    _rule("allergic_to", rf"(?:{_BE}|have been|has been)(?: (?:severely|highly|very|deathly|mildly|a bit|slightly))? allergic to (?P<v>.{{2,60}})$", many=True, confidence=EXPLICIT),
    _rule("allergic_to", rf"ha(?:ve|s) an? (?:(?:severe|bad|serious|mild|life-threatening) )?(?:(?P<v>(?:{_FOODS})(?:(?:,| and| or) (?:{_FOODS}))*|[a-z]{{3,20}}) allergy|allergy to (?P<w>.{{2,60}}))$", many=True, confidence=EXPLICIT),
    _rule("health_condition", r"(?:have|has|suffer(?:s)? from|(?:was|were|been) diagnosed with|am living with) (?P<v>(?:type [12] |chronic |high )?(?:diabetes|asthma|hypertension|blood pressure|depression|anxiety disorder|migraines?|arthritis|celiac disease|insomnia|anemia|epilepsy|adhd|cancer|eczema|heart disease|lactose intolerance|crohn's disease))\b"),
    _rule("diet", rf"(?:{_BE} (?:an? )?|became |eat |follow an? |keep )(?P<v>vegetarian|vegan|pescatarian|kosher|halal|gluten[- ]free|lactose intolerant|keto|paleo|low[- ]carb)\b"),
    _rule("dislikes", r"(?:do(?:es)? not (?:like|enjoy|love|care for|fancy)|do(?:es)? not like|hate(?:s)?|dislike(?:s)?|can not (?:stand|bear)|detest(?:s)?|loathe(?:s)?|(?:am|is) not (?:into|a (?:big |huge )?fan of|keen on|fond of|interested in))(?: any)?(?P<to> to)? (?P<v>.{2,90})$", many=True),
    _rule("likes", r"(?:no longer|do(?:es)? not)(?: like| enjoy)? (?P<v>.{2,60}) anymore$", many=True, negated=True),
    _rule("avoids", r"(?:do(?:es)? not|never|can not|no longer|stopped|quit|gave up) (?P<v>(?:eat|drink|smoke|eating|drinking|smoking)(?: .{2,40})?)$", check="plain"),
    _rule("avoids", r"avoid(?:s)? (?P<v>.{3,50})$", many=True),
    _rule("contact_preference", r"prefer(?:s)? (?:to be (?:contacted|reached)|being contacted|to get messages|contact|to (?:communicate|talk)) (?:by|via|through|over|on) (?P<v>e-?mail|phone|text|sms|wechat|whatsapp|chat|letter)"),
    _rule("prefers", r"(?:would rather|prefer(?:s)?|favou?r(?:s)?)(?P<to> to)? (?P<v>.{2,90})$", many=True),
    _rule("likes", rf"(?:like(?:s)?|love(?:s)?|enjoy(?:s)?|adore(?:s)?|(?:have|has) (?:always )?(?:loved|liked|enjoyed)|{_BE} (?:into|fond of|an? (?:big |huge |great |avid )?(?:fan of|lover of)|obsessed with|passionate about|keen on|crazy about|interested in|addicted to)|{_BE} a fan of|have a passion for)(?P<to> to)? (?P<v>.{{2,120}})$", many=True),
    _rule("likes", r"(?:main |biggest )?(?:hobby|hobbies|interests?|passions?) (?:is|are|include(?:s)?)(?: to)? (?P<v>.{2,120})$", many=True),
    _rule("favourite", r"(?:all-time )?favou?rite (?P<k>[a-z ]{2,24}?) (?:is|are|has always been|would be) (?P<v>.{2,60})$"),
    _rule("habit", r"(?P<v>(?:go|run|jog|swim|exercise|read|drink|eat|work out|meditate|practice|get up|wake up|walk|play|do)\b.{0,50}\b(?:every|each|twice|three times|once|daily|on (?:mon|tues|wednes|thurs|fri|satur|sun)days)\b.{0,30})$", check="plain"),
    _rule("learning", rf"(?:{_BE} (?:learning|studying|taking up|teaching myself)|have been (?:learning|studying|practicing)|has been (?:learning|studying)|started (?:learning|studying)|am taking)(?P<to> how to| to)? (?P<v>.{{2,60}})$", many=True),
    _rule("reading", rf"(?:{_BE} (?:reading|watching)|have been (?:reading|watching))(?: an?)?(?: \w+){{0,5}} (?:called |titled |named )?[\"“](?P<v>[^\"”]{{2,60}})[\"”]?", check="title"),
    _rule("speaks", r"speak(?:s)?(?: fluent| some| a little| native)? (?P<v>(?:English|French|German|Spanish|Chinese|Mandarin|Cantonese|Japanese|Korean|Italian|Portuguese|Russian|Arabic|Hindi)(?:(?:,| and|, and) (?:English|French|German|Spanish|Chinese|Mandarin|Cantonese|Japanese|Korean|Italian|Portuguese|Russian|Arabic|Hindi))*)", many=True),
    _rule("trait", rf"{_BE} (?:an? )?(?P<v>left-handed|introvert(?:ed)?|extrovert(?:ed)?|night owl|early bird|morning person|colou?r ?blind|[IE][NS][TF][JP]|only child|workaholic)\b"),
    _rule("name", r"am (?P<v>[A-Z][a-z'’-]{1,20}(?: [A-Z][a-z'’-]{1,20})?)$", exact_case=True, confidence=EXPLICIT, check="self_name"),
    _rule("nationality", rf"{_BE} (?P<v>[A-Z]\w+)$", exact_case=True, check="nationality"),
)  # fmt: skip
_CALL_ME = re.compile(
    rf"^(?:please |just |you can |everyone |people |my friends )*call(?:s)? me (?P<v>{_NAME})$", re.IGNORECASE
)
_NAMED_APPOSITION = re.compile(r"^([A-Z][a-z'’-]{1,20}), (?:an? )?(?P<rest>.+)$")
_WOULD_LIKE = re.compile(
    r"^would (?:like|love|prefer|enjoy)|^(?:will|might|may|could|should|can|had|need|want)\b", re.IGNORECASE
)


@lru_cache(maxsize=1)
def _subject_pattern() -> re.Pattern[str]:
    words = "|".join(sorted(map(re.escape, person_by_word("en")), key=len, reverse=True))
    return re.compile(
        rf"^(?:it (?:is|was) )?(?P<me>I|we)\s+(?=\S)"
        rf"|^(?:it (?:is|was) |not me,? )*(?:my|our) (?:[a-z-]+ )??(?P<kin>{words})(?:,? (?P<named>(?-i:[A-Z][a-z'’-]+)),?)?(?P<have>['’]s)?\s+(?=\S)"
        rf"|^(?P<mine>my)\s+(?=\S)"
        rf"|^(?P<pronoun>he|she|they|his|her|their)\s+(?=\S)"
        rf"|^(?P<name>(?-i:[A-Z][a-z]{{1,20}})) (?=(?:likes|loves|hates|enjoys|is|lives|works|prefers|has|dislikes)\b)",
        re.IGNORECASE,
    )


@lru_cache(maxsize=256)
def opened(text: str) -> str:
    """Return the clause without fillers at its beginning and with contractions written out."""
    body = text
    if "'" in body or "’" in body or "cannot" in body or "dont" in body:
        for pattern, replacement in _CONTRACTIONS:
            body = pattern.sub(replacement, body)
    return _FILLER.sub("", body)


def subject_of(text: str, carried: str | None, person: str | None) -> tuple[str | None, str]:
    """Return who a clause speaks about and the rest of it; ``None`` when it is somebody we cannot name.

    ``carried`` is the subject an omitted one continues, ``person`` whom he or she means.
    """
    body = opened(text)
    match = _subject_pattern().match(body)
    if match is None:
        if _CALL_ME.match(body):
            return USER, body
        verb = re.match(
            r"(?:am|work|live|love|like|hate|enjoy|prefer|allergic|based|from|not|no longer|born|moved|do not)\b", body
        )
        return (carried, body) if verb else (None, body)
    rest = re.sub(r"^(?:who|that) (?=is|was|has|likes|hates|lives|works|loves)", "", body[match.end() :])
    if match["me"] or match["mine"]:
        return USER, rest
    if match["pronoun"]:
        return person, rest
    if match["name"]:
        named = match["name"]
        return (f"person:{named}", rest) if named[0].isupper() and named.lower() not in _NO_PERSON else (None, body)
    if match["have"] and re.match(r"(?:allergic|an?|from|called|named|\d|born|vegan|vegetarian|married|not)\b", rest):
        rest = f"is {rest}"
    key = person_by_word("en")[match["kin"].lower()]
    return (f"person:{match['named']}" if match["named"] and match["named"][0].isupper() else f"person:{key}"), rest


_NO_PERSON = frozenset(
    "there here everyone everything nothing work life food music china english jazz python google he she it who someone somebody nobody"
    " monday tuesday wednesday thursday friday saturday sunday january march april may june july august which that this and but so".split()
)


def facts_of(text: str, subject: str, rest: str, *, hedged: bool, past: bool) -> Iterator[Fact]:
    """Yield what an English clause states about ``subject``; ``rest`` is the clause after its subject."""
    base = Fact(attribute="", value="", language="en", subject=subject)
    if call := _CALL_ME.match(opened(text)):
        yield replace(base, subject=USER, attribute="nickname", value=call["v"], confidence=EXPLICIT)
        return
    bare = _ADVERB.sub("", rest.strip(" .,!?")) if '"' not in rest else rest
    if _WOULD_LIKE.match(bare) and not bare.startswith("would rather"):
        return
    if subject == USER and re.match(r"am [A-Z]", bare) and (apposition := _NAMED_APPOSITION.match(bare[3:])):
        if not _NATIONALITY.match(apposition[1]):
            yield replace(base, attribute="name", value=apposition[1], confidence=EXPLICIT)
        bare = f"am a {apposition['rest']}"
    for part in _coordinated(bare):
        yield from _qualify_all(_apply(part, base), bare, hedged=hedged, past=past)


def _coordinated(rest: str) -> list[str]:
    """``have two kids and a dog`` is two statements with one verb."""
    if not rest.startswith("have "):
        return [rest]
    parts = re.split(r"(?:,\s*|\s+)and\s+(?=(?:an?|one|two|three)\s)", rest)
    return [parts[0], *(f"have {part}" for part in parts[1:])]


def _qualify_all(facts: Iterator[Fact], clause: str, *, hedged: bool, past: bool) -> Iterator[Fact]:
    for fact in facts:
        yield _qualified(fact, clause, hedged=hedged, past=past)


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
    groups = match.groupdict()
    raw = groups["v"] or groups.get("w") or ""
    if rule.attribute == "employment":
        yield from _employment(raw, base, strict=rule.check == "job")
        return
    if rule.attribute == "favourite":
        value = clean_english(raw)
        if usable_english(value):
            kind = groups["k"].strip()
            yield replace(base, attribute="likes", value=value, sentence=_favourite(base, kind, value))
        return
    if rule.attribute == "avoids":
        yield from _avoided(raw, base)
        return
    attribute = "hometown" if rule.attribute == "nationality" else rule.attribute
    values = list_english(raw) if rule.many else (_single(rule.check, raw),)
    infinitive = groups.get("to")
    for value in values:
        if value and (rule.many or _passes(rule.check, value)):
            told = (
                sentence_of(replace(base, attribute=attribute, value=f"{infinitive.strip()} {value}"))
                if infinitive
                else ""
            )
            yield replace(
                base, attribute=attribute, value=value, negated=rule.negated, confidence=rule.confidence, sentence=told,
                intent="correct" if rule.negated else "inform",
            )  # fmt: skip


def _avoided(raw: str, base: Fact) -> Iterator[Fact]:
    """``do not eat coriander``: the thing is coriander, the sentence keeps the verb."""
    match = re.match(r"(?P<verb>eat|drink|smoke)(?:ing)?\b ?(?P<thing>.*)$", raw, re.IGNORECASE)
    verb, things = (match["verb"].lower(), match["thing"]) if match else ("", raw)
    label = subject_label(base.subject, "en")
    if verb and not clean_english(things):
        yield replace(
            base,
            attribute="avoids",
            value={"eat": "eating", "drink": "alcohol", "smoke": "smoking"}[verb],
            sentence=f"{label} does not {verb}",
        )
        return
    for thing in list_english(things):
        told = f"{label} does not {verb} {thing}" if verb else f"{label} avoids {thing}"
        yield replace(base, attribute="avoids", value=thing, sentence=told)


def _single(check: str, raw: str) -> str:
    if check == "place":
        return re.sub(r"^the ", "", re.split(r"\s+(?:and|with|for|since|as|near|but|last|this)\b", raw)[0]).strip(" ,.")
    return clean_english(raw) if check not in {"date", "title"} else raw.strip(" .,!")


def _favourite(base: Fact, kind: str, value: str) -> str:
    owner = (
        "The user's" if base.subject == USER else f"{base.subject.partition(':')[2].replace('_', ' ').capitalize()}'s"
    )
    return f"{owner} favourite {kind} is {value}"


def _employment(raw: str, base: Fact, *, strict: bool) -> Iterator[Fact]:
    """A job with its employer and place: ``backend developer at Nebula in Berlin``."""
    parts = re.split(r"\s+(at|for|with|in|from|based in)\s+(?=(?:the |an? )?[A-Z])", raw)
    job = clean_english(parts[0])
    if usable_english(job, 40) and (_JOB.search(job) if strict else True):
        yield replace(base, attribute="job", value=job)
    elif strict:
        return
    for word, name in zip(parts[1::2], parts[2::2], strict=False):
        clean = clean_english(name)
        if clean:
            attribute = {"in": "city", "based in": "city", "from": "hometown"}.get(word, "employer")
            yield replace(base, attribute=attribute, value=clean)


def _passes(check: str, value: str) -> bool:
    match check:
        case "name":
            return _NOT_NAME.match(value) is None
        case "self_name":
            return _NOT_NAME.match(value) is None and _NATIONALITY.match(value) is None and _JOB.search(value) is None
        case "nationality":
            return _NATIONALITY.match(value) is not None
        case "age":
            return 0 < int(value) < 130
        case "title":
            return True
        case "date":
            return re.search(r"\d", value) is not None
        case "place":
            return usable_english(value) and value not in {"I", "God", "Friday"}
        case "employer":
            return re.match(r"(?:an? )?(?:I|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)\b", value) is None
    return usable_english(value, 90)


def _qualified(fact: Fact, clause: str, *, hedged: bool, past: bool) -> Fact:
    if hedged:
        fact = replace(fact, confidence=min(fact.confidence, HEDGED))
    former = {"city": "city_before", "job": "job_before", "employer": "job_before"}
    if past and fact.attribute in former and re.search(r"used to|formerly|previously|worked", clause, re.IGNORECASE):
        return replace(fact, attribute=former[fact.attribute])
    return fact


def is_past_taste(rest: str) -> bool:
    """Return whether a clause tells a taste that is over: ``used to like``."""
    return re.match(r"used to (?:like|love|enjoy|eat|drink)\b", rest, re.IGNORECASE) is not None
