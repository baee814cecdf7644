"""What Python users call: stores, trainings, streams and predictions of files, with settings as keywords."""
