"""The scenario workbench: what happens between laces, step by step, in a browser.

``session`` decides and is free of input and output; ``server`` and ``export`` bring what it says to
a page. The page itself knows no rules: everything it shows was worked out by the engine.
"""
