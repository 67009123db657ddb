"""The admin socket, by which commands of the same user reach a gateway that runs."""
