"""Files of this machine and objects in object stores: their names, how they are read, and how they take their names."""
