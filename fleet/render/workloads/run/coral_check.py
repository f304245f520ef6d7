# Says each minute whether a Coral USB Accelerator is there and can be opened; ends where it is not.
# Arguments, all optional: the kernel's folder of USB devices, that of their device files, seconds to wait (0: once).
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# Before its firmware is loaded the stick calls itself by its chip's maker, then by Google.
IDS = {("1a6e", "089a"): "without firmware yet", ("18d1", "9302"): "ready"}


def text(device: Path, name: str) -> str:
    path = device / name
    return path.read_text().strip() if path.exists() else ""


def sticks(devices: Path, files: Path) -> Iterator[tuple[Path, str]]:
    for device in sorted(devices.iterdir()):
        if state := IDS.get((text(device, "idVendor"), text(device, "idProduct"))):
            yield files / f"{int(text(device, 'busnum')):03d}" / f"{int(text(device, 'devnum')):03d}", state


def main(devices: str = "/sys/bus/usb/devices", files: str = "/dev/bus/usb", seconds: str = "60") -> None:
    while True:
        if not (found := list(sticks(Path(devices), Path(files)))):
            raise SystemExit("no Coral USB Accelerator at this node")
        for path, state in found:
            os.close(os.open(path, os.O_RDWR))
            print(f"Coral at {path}: {state}, opens")
        if not float(seconds):
            return
        time.sleep(float(seconds))


main(*sys.argv[1:])
