"""The files that machines of a Talos cluster boot from: talhelper's config, config patches, and schematics of images."""
