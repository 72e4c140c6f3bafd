"""Schemas of graphs: node types, predicates, and the distributions of their degrees.

The shop of WatDiv and the social network of LDBC have the types, predicates, proportions and distributions that the
authors of gMark published for them. An in-degree that a schema leaves open is at most one in ``wd`` and ``snb``; in
``wdd``, which is ``wd`` otherwise, targets are drawn freely, so that out-degrees alone decide how many edges there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True)
class Uniform:
    """Every degree from ``low`` to ``high`` is equally likely."""

    low: int
    high: int


@dataclass(frozen=True)
class Gaussian:
    """Degrees around ``mean``, rounded, and none below zero."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Zipfian:
    """Degree ``k``, from 1 on, has a probability proportional to ``k ** -exponent``."""

    exponent: float


Distribution: TypeAlias = Uniform | Gaussian | Zipfian


@dataclass(frozen=True)
class NodeType:
    """A type of nodes: ``fixed`` many, or a ``share`` of the size of the graph."""

    name: str
    fixed: int | None = None
    share: float = 0.0

    def count(self, size: int) -> int:
        """Return the number of its nodes in a graph of a size."""
        return self.fixed if self.fixed is not None else max(1, round(self.share * size))


@dataclass(frozen=True)
class Edges:
    """Edges of a predicate from one type to another, with the distributions of their degrees, None if open."""

    source: str
    predicate: str
    target: str
    outgoing: Distribution
    incoming: Distribution | None


@dataclass(frozen=True)
class Schema:
    """Types in the order of their nodes, predicates in the order of their numbers, and the edges between types.

    ``open_incoming`` is the distribution of in-degrees that ``edges`` leave open; if it is None, too, each edge draws
    its target among all nodes of the type. ``workloads`` names the schema that the queries come from.
    """

    name: str
    workloads: str
    types: tuple[NodeType, ...]
    predicates: tuple[str, ...]
    edges: tuple[Edges, ...]
    open_incoming: Distribution | None

    def symbol(self, predicate: str) -> str:
        """Return the name of a predicate in files and queries: ``p0`` for the first one."""
        return f"p{self.predicates.index(predicate)}"


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


ONE, OPTIONAL, MANY = Uniform(1, 1), Uniform(0, 1), Zipfian(2.5)

# ---- wd: the shop of WatDiv ----------------------------------------------------------------------------------------

WD_TYPES = (
    *(
        NodeType(name, fixed=count)
        for name, count in {
            "Genre": 21,
            "SubGenre": 145,
            "Topic": 250,
            "City": 240,
            "Country": 25,
            "Language": 35,
            "Role": 3,
            "AgeGroup": 9,
            "Gender": 2,
        }.items()
    ),
    *(
        NodeType(name, share=share)
        for name, share in {
            "Concert": 0.01,
            "MusicAlbum": 0.01,
            "Movie": 0.01,
            "Book": 0.01,
            "NewsArticle": 0.01,
            "OtherProduct": 0.01,
            "Retailer": 0.009,
            "Offer": 0.17,
            "Purchase": 0.28,
            "Website": 0.01,
            "Review": 0.28,
            "User": 0.19,
        }.items()
    ),
    *(NodeType(name, fixed=1000) for name in ("string", "integer", "date")),
)

WD_PREDICATES = words(
    """
    description contentRating keywords text contentSize caption expires opus movement composer performer producer
    recordNumber release duration award isbn bookEdition numberOfPages published datePublished wordCount printColumn
    printEdition printPage printSection name openingHours paymentAccepted email telephone faxNumber aggregateRating
    legalName serialNumber price validFrom validThrough priceValidUntil eligibleQuantity purchaseDate url hits rating
    totalVotes userId givenName familyName birthDate jobTitle title type tag hasGenre homepage parentCountry language
    like subscribes follows friendOf location age gender nationality conductor performedIn artist actor director trailer
    author editor offers contactPoint employee includes eligibleRegion makesPurchase purchaseFor reviewer hasReview
    """
)

WORKS = ("Concert", "MusicAlbum", "Movie", "Book", "NewsArticle", "OtherProduct")

WD_ATTRIBUTES = {
    **dict.fromkeys(
        WORKS, ("title:string", "description:string text:string contentSize:integer caption:string expires:date")
    ),
    "Retailer": (
        "name:string description:string",
        "openingHours:integer paymentAccepted:string email:string telephone:integer faxNumber:integer "
        "aggregateRating:integer legalName:string",
    ),
    "Offer": (
        "serialNumber:integer price:integer",
        "validFrom:date validThrough:date priceValidUntil:date eligibleQuantity:integer",
    ),
    "Purchase": ("price:integer", "purchaseDate:date"),
    "Website": ("url:string hits:integer", ""),
    "Review": ("rating:integer", "title:string text:string totalVotes:integer"),
    "User": (
        "userId:integer",
        "givenName:string familyName:string birthDate:date email:string telephone:integer jobTitle:string",
    ),
}
"""By type: the attributes that each node has, and those that it may have, with the types of their values."""

WD_MORE_ATTRIBUTES = {
    "Concert": ("", "opus:integer movement:integer composer:string performer:string"),
    "MusicAlbum": ("", "producer:string recordNumber:integer release:date"),
    "Movie": ("", "duration:integer producer:string award:string"),
    "Book": ("isbn:integer", "bookEdition:integer numberOfPages:integer"),
    "NewsArticle": (
        "",
        "published:string datePublished:date wordCount:integer printColumn:integer printEdition:integer "
        "printPage:integer printSection:integer",
    ),
}
"""The attributes of single kinds of works."""

WD_EDGES: tuple[tuple[str, str, str, Distribution], ...] = (
    *(
        edges
        for work in WORKS
        for edges in (
            (work, "contentRating", "integer", MANY),
            (work, "keywords", "string", MANY),
            (work, "hasGenre", "SubGenre", Gaussian(3, 1)),
            (work, "tag", "Topic", Uniform(20, 20)),
            (work, "homepage", "Website", ONE),
            (work, "hasReview", "Review", Gaussian(60, 20)),
            ("User", "like", work, MANY),
            ("Offer", "includes", work, ONE),
            ("Purchase", "purchaseFor", work, MANY),
        )
    ),
    ("SubGenre", "type", "Genre", ONE),
    ("SubGenre", "tag", "Topic", Uniform(6, 6)),
    ("Concert", "conductor", "User", ONE),
    ("Concert", "performedIn", "City", MANY),
    ("MusicAlbum", "artist", "User", MANY),
    ("Movie", "actor", "User", Gaussian(25, 5)),
    ("Movie", "director", "User", MANY),
    ("Movie", "trailer", "Website", Gaussian(3, 1)),
    ("Movie", "language", "Language", MANY),
    ("Book", "author", "User", Gaussian(4, 2)),
    ("Book", "editor", "User", Gaussian(4, 2)),
    ("Book", "language", "Language", MANY),
    ("NewsArticle", "author", "User", ONE),
    ("NewsArticle", "editor", "User", Gaussian(3, 1)),
    ("City", "parentCountry", "Country", MANY),
    ("Website", "language", "Language", MANY),
    ("User", "type", "Role", MANY),
    ("User", "homepage", "Website", ONE),
    ("User", "subscribes", "Website", Gaussian(15, 5)),
    ("User", "follows", "User", MANY),
    ("User", "friendOf", "User", Gaussian(225, 25)),
    ("User", "location", "City", MANY),
    ("User", "age", "AgeGroup", Gaussian(35, 15)),
    ("User", "gender", "Gender", ONE),
    ("User", "nationality", "Country", MANY),
    ("User", "makesPurchase", "Purchase", Gaussian(20, 5)),
    ("Retailer", "offers", "Offer", MANY),
    ("Retailer", "contactPoint", "User", ONE),
    ("Retailer", "employee", "User", Gaussian(10, 5)),
    ("Offer", "eligibleRegion", "Country", MANY),
    ("Review", "reviewer", "User", ONE),
)
"""Source, predicate, target, out-degrees; in-degrees are open."""


def attributes(known: dict[str, tuple[str, str]]) -> Iterator[Edges]:
    """Return the edges to values of attributes."""
    for source, kinds in known.items():
        for names, outgoing in zip(kinds, (ONE, OPTIONAL), strict=True):
            for predicate, target in (name.split(":") for name in words(names)):
                yield Edges(source, predicate, target, outgoing, None)


WD = Schema(
    "wd",
    "wd",
    WD_TYPES,
    WD_PREDICATES,
    (
        *attributes(WD_ATTRIBUTES),
        *attributes(WD_MORE_ATTRIBUTES),
        *(Edges(source, predicate, target, outgoing, None) for source, predicate, target, outgoing in WD_EDGES),
    ),
    open_incoming=OPTIONAL,
)
WDD = replace(WD, name="wdd", open_incoming=None)

# ---- snb: the social network of LDBC -------------------------------------------------------------------------------

SNB_NAMES = words(
    "Person University Company City Country Continent Forum Tag TagClass Post Comment Message String Integer DateTime"
)

SNB_PREDICATES = words(
    """
    knows hasInterest hasModerator hasMember studyAt worksAt isLocatedIn isPartOf likes hasCreator containerOf hasTag
    hasType isSubclassOf replyOf creationDate name gender birthday email speaks browserUsed locationIP content language
    imageFile length
    """
)

SNB_EDGES: tuple[tuple[str, str, str, Distribution], ...] = (
    ("Person", "knows", "Person", MANY),
    ("Person", "isLocatedIn", "City", ONE),
    ("Person", "studyAt", "University", Uniform(0, 3)),
    ("Person", "worksAt", "Company", Uniform(0, 3)),
    ("Person", "hasInterest", "Tag", MANY),
    ("Person", "likes", "Message", MANY),
    ("University", "isLocatedIn", "City", ONE),
    ("Company", "isLocatedIn", "Country", ONE),
    ("City", "isPartOf", "Country", ONE),
    ("Country", "isPartOf", "Continent", ONE),
    ("Forum", "hasModerator", "Person", ONE),
    ("Forum", "hasMember", "Person", MANY),
    ("Forum", "containerOf", "Post", MANY),
    ("Forum", "hasTag", "Tag", MANY),
    ("Tag", "hasType", "TagClass", MANY),
    ("TagClass", "isSubclassOf", "TagClass", MANY),
    ("Post", "isSubclassOf", "Message", ONE),
    ("Comment", "replyOf", "Message", ONE),
    ("Comment", "isSubclassOf", "Message", ONE),
    ("Message", "isLocatedIn", "Country", ONE),
    ("Message", "hasCreator", "Person", ONE),
    ("Message", "hasTag", "Tag", MANY),
)
"""The in-degrees of edges between entities are Zipfian, but for ``containerOf``: a post is in one forum."""

SNB_ATTRIBUTES = {
    "Person": (
        "creationDate:DateTime name:String gender:String birthday:DateTime browserUsed:String locationIP:String",
        "email:String speaks:String",
    ),
    **dict.fromkeys(("University", "Company", "City", "Country", "Continent", "Tag", "TagClass"), ("name:String", "")),
    "Forum": ("length:String creationDate:DateTime", ""),
    "Post": ("", "content:String language:String imageFile:String"),
    "Comment": ("content:String language:Integer", ""),
    "Message": ("creationDate:DateTime browserUsed:String locationIP:String", ""),
}

SNB = Schema(
    "snb",
    "snb",
    tuple(NodeType(name, share=1 / len(SNB_NAMES)) for name in SNB_NAMES),
    SNB_PREDICATES,
    (
        *attributes(SNB_ATTRIBUTES),
        *(
            Edges(source, predicate, target, outgoing, ONE if predicate == "containerOf" else MANY)
            for source, predicate, target, outgoing in SNB_EDGES
        ),
    ),
    open_incoming=OPTIONAL,
)

SCHEMAS = {schema.name: schema for schema in (WD, SNB, WDD)}
