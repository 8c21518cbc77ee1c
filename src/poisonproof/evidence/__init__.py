"""What an auditor, a regulator or a build server can take away from a run, in the formats that they use.

`facts` recomputes every number from a run that was verified; `statement`, `bom`, `model_card` and `page` put the same
facts into four forms; `signing` seals them and `sealed` checks a seal against a run; `gate` compares them with what
somebody asks for.
"""
