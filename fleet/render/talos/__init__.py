"""What machines of a Talos cluster boot, as files: talhelper's config, patches of machine configs, schematics of images."""
