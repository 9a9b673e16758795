"""What a page of past events says about how far back they are known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.cluster.cluster import Cluster, now_ms
from app.cluster.log_events.survey import Survey
from app.pages.frame import number
from app.texts import phrase, sentences

GAPS_SHOWN: Final = 3
PAST_PATIENCE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class SurveyNotes:
    """Sentences about a survey. While `is_reading`, the page renews itself until everything is read."""

    is_reading: bool
    texts: Sequence[str]

    @property
    def text(self) -> str:
        """The sentences, one after the other."""
        return sentences(self.texts)


def notes_of(survey: Survey) -> SurveyNotes:
    """Return the notes."""
    is_reading = not survey.is_whole and not survey.trouble
    return SurveyNotes(is_reading, list(_texts(survey, is_reading=is_reading)))


def _texts(survey: Survey, *, is_reading: bool) -> Iterator[str]:
    first = number(survey.first_offset)
    if is_reading:
        yield phrase(
            "The log is still being read; known so far is what happened since offset %(offset)s.", offset=first
        )
    else:
        yield phrase("From the metadata log since offset %(offset)s.", offset=first)
    for start, end in survey.gaps[-GAPS_SHOWN:]:
        yield phrase(
            "What happened at offsets %(first)s to %(last)s is not known.", first=number(start), last=number(end)
        )
    if survey.trouble:
        yield survey.trouble


async def survey_of(cluster: Cluster) -> tuple[Survey, int]:
    """Return what is known of the past, and the time until which it is: now, or that of the past state on the page.

    A page of a past state waits longer, so that its address shows the same again.
    """
    if cluster.past is None:
        return await cluster.log_events.survey(), now_ms()
    survey = await cluster.log_events.survey(PAST_PATIENCE_SECONDS)
    return survey.until(cluster.past.offset), cluster.past.time_ms or survey.first_ms
