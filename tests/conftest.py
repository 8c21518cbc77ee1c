from hypothesis import settings

settings.register_profile("bezoar", deadline=None)
settings.load_profile("bezoar")
