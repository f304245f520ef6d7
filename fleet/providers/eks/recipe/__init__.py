"""What EC2 Image Builder gets: the document of the component, which runs on the machines that build and test the image."""
