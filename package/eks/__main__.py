"""What the Pulumi engine starts for programs that use components for AWS EKS and Kubernetes alone."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # As in the folder above, which has the components of all clouds.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

    from pulumi.provider import main

    from package.provider import PackageProvider

    main(PackageProvider("kubernetes", "eks"), sys.argv[1:])
