"""Model data: found, downloaded, unpacked once, and shared by the instances that use them."""
