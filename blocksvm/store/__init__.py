"""The store: one HDF5 file of compressed chunks under checksums; its layout, writer, reader and verification."""
