from hypothesis import settings

settings.register_profile("poisonproof", deadline=None)
settings.load_profile("poisonproof")
