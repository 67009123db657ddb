"""The APIs of a gateway, one folder each; a switched-off API loads only its manifest."""
