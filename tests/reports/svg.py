"""Looks into charts."""

from xml.etree import ElementTree as ET


def shapes(chart: str, tag: str, kind: str) -> list[ET.Element]:
    """Return the shapes of a kind; the squares of a legend have another width."""
    found = ET.fromstring(chart).iter(tag)
    return [one for one in found if one.get("class") == kind and one.get("width") != "11"]


def texts(chart: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(chart).iter("text")]


def titles(chart: str) -> list[str]:
    return [title.text or "" for title in ET.fromstring(chart).iter("title")]
