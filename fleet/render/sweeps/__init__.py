"""What sweeps run. In a cluster a ConfigMap has the modules of one sweep: they import the standard library and each other alone."""
