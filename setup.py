"""What goes into the wheel, and where it is installed; pyproject.toml has the rest.

The packages `specdec_…` are installed under their own names. `app` and `training` are names that other projects use as
well: with the assets they go into one folder `specdec_lab`, laid out like this repository, so that paths between them
stay the same. They cannot be imported from outside; `specdec app` and `specdec train` put the folder on the path of
their process.
"""

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py

LAB = "specdec_lab"
NOT = ["*__pycache__*", "assets.screenshots*", "training.runs*", "training.corpus*"]


def folders(top: str) -> list[str]:
    """A folder of this repository and all below it, each as a package: those without modules hold data."""
    return find_namespace_packages(include=[top, f"{top}.*"], exclude=NOT)


class Build(build_py):
    """Without this file, the one module of the folder that becomes `specdec_lab`."""

    def find_package_modules(self, package, package_dir):
        return [] if package == LAB else super().find_package_modules(package, package_dir)


OWN = ("specdec_core", "specdec_measure", "specdec_lessons", "specdec_cli")

core = [name for top in OWN for name in folders(top)]
lab = [f"{LAB}.{name}" for top in ("app", "assets", "training") for name in folders(top)]
setup(
    cmdclass={"build_py": Build},
    packages=[*core, LAB, *lab],
    package_dir={LAB: "."}
    | {top: top for top in OWN}
    | {f"{LAB}.{top}": top for top in ("app", "assets", "training")},
    package_data={name: ["*"] for name in (*core, *lab)} | {LAB: [".streamlit/config.toml"]},
)
