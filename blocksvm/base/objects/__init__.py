"""Objects in object stores (s3://, gs://, az://, https://): their names, requests for them, files over them."""
