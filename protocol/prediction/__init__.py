"""Online prediction: request bodies with instances, and answers with predictions."""
