"""Studies: one model on one data set over many seeds, the raw material of all tables."""

from detgraph.studies.running import StudyObserver, complete
from detgraph.studies.study import Study

__all__ = ["Study", "StudyObserver", "complete"]
