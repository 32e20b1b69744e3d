"""Open-domain question answering as published: question files, DrQA's matching, passages and their accuracy."""
