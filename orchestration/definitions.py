"""The Definitions of the project of this process.

``tidelog up``, ``dagster dev``, ``dg dev`` and a workspace.yaml load this module.
``orchestration.assembly`` puts them together from the modules of ``assets`` and ``sensors`` and the
components of every ``defs.yaml`` below ``assets``. A folder that is not a project, or a mistake in
it, is reported as one sentence.
"""

import sys
import time
from pathlib import Path

from orchestration.assembly import assemble
from orchestration.components.loading import load_components
from orchestration.project.location import find_project, import_project
from orchestration.topics.spec import forget_declared_topics

forget_declared_topics()
_project = find_project(*map(Path, sys.path[:1]), Path.cwd())
_modules = import_project(_project)

defs = assemble(_modules, definitions=load_components(_project, _modules[0]))
LOADED_S = time.time()
"""The time of this load. Runs that failed before it are tried again without a longer pause."""
