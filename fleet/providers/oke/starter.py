"""How `init` writes an OKE cluster."""

from pathlib import Path

from fleet.facts import versions
from fleet.providers.oke.ocid import key_of
from fleet.providers.provider import Starter, Values, Wanted

_MACHINES = (
    "# REPLACE: a compartment for the VMs of jobs, so that their launchers have no access to the nodes.",
    "machineCompartment: ocid1.compartment.oc1..examplemachines",
    "machineCompartmentPath: ci:machines",
)


class OkeStarter(Starter):
    """OKE, and an OKE cluster that exists already. VMs of single jobs are OCI's."""

    templates = Path(__file__).parent / "templates"
    answers = ("oke", "existing-oke")
    where = "on OKE"
    node_ids = ("ocid1", "oci")
    jobs = ("tests", "release", "training", "containers")
    zone_prefix = "abcd:"
    of_pods = (
        "# REPLACE: OKE enforces no NetworkPolicy. Say why you accept that: docs/isolation.md#who-enforces-it.",
        "acceptUnenforcedNetwork: Only members of the organization start jobs here.",
    )
    # Branch 580 drives every NVIDIA GPU of the hardware table.
    driver = "580.159.03"

    def cluster_name(self, region: str) -> str:
        """As in the base class: sjc for us-sanjose-1."""
        return key_of(region)

    def values(self, wanted: Wanted) -> Values:
        """As in the base class. A new cluster has the newest minor whose autoscaler a source names."""
        minors = (name for name, row in versions.OKE_KUBERNETES.items() if row.autoscaler)
        version = wanted.version or max(minors, key=versions.minor)
        row = versions.OKE_KUBERNETES.get(version)
        image = f"oke-gpu: {{id: ocid1.image.oc1.{wanted.region}.examplegpu, driver: {self.driver}}}"
        return {
            "key": key_of(wanted.region),
            "version": version,
            "machine_compartment": _MACHINES if wanted.containers else (),
            "watched": ", compartment: ocid1.compartment.oc1..exampleci" if wanted.containers else "",
            "gpu_image": image if wanted.buys else (),
            "addons": f"addonVersions: {{ClusterAutoscaler: {row.autoscaler}}}" if wanted.buys and row and row.autoscaler else (),
        }
