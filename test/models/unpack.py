#!/usr/bin/env python3
"""Unpacks the .xz files of this folder beside themselves (exported graphs and tensors; what git keeps is half as large). Run by the build."""
import lzma, os

here = os.path.dirname(os.path.abspath(__file__))
for folder, _, files in os.walk(here):
    for name in files:
        packed, plain = os.path.join(folder, name), os.path.join(folder, name[:-3])
        if not name.endswith(".xz") or (os.path.exists(plain) and os.path.getmtime(plain) >= os.path.getmtime(packed)): continue
        with open(plain + ".part", "wb") as f: f.write(lzma.open(packed).read())
        os.replace(plain + ".part", plain)
