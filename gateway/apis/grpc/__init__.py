"""Predictions over gRPC: Google's services and the Open Inference Protocol's."""
