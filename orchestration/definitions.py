"""The Definitions of the project that this process stands in: what ``tidelog up``, ``dagster dev`` and a workspace.yaml load.

``orchestration.assembly`` puts them together. A folder that is no project is one sentence.
"""

import sys
from pathlib import Path

from orchestration.assembly import assemble
from orchestration.projects import find_project, import_project

defs = assemble(import_project(find_project(Path.cwd(), sys.path)))
