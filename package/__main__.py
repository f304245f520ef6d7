"""What the Pulumi engine starts: serves the packaged components to programs in any language."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The engine runs this folder, so Python finds only modules in it. The components are beside it.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

    from pulumi.provider import main

    from package.provider import PackageProvider

    main(PackageProvider(), sys.argv[1:])
