"""Runyard behind interfaces that existing code uses already: an executor, and joblib's backend."""
