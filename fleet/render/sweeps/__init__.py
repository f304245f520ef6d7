"""What sweeps run. A ConfigMap has the modules of one sweep, which import only the standard library and each other."""
