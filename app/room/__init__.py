"""The room: a class predicts, votes and sees together, on plain pages that follow one state.

From the ground up: `states` and `codes` (what a room is in, and how it is found), `asked` (the questions of lessons),
`tally`, `store`, `live` (who is told of changes), `runs/`, `pages/` (what a page may show when, and pictures of lessons
outside a Streamlit session). The routes are in `app/web/room.py`.
"""
