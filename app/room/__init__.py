"""The room: a class predicts, votes and sees together, on plain pages that follow one state.

From the ground up: `states` and `codes` (what a room is in, and how it is found), `asked` (the questions of lessons),
`tally`, `views` (what a page may show when), `store`, `live` (who is told of changes), `stills` (pictures of
lessons outside a Streamlit session). The routes are in `app/web/room.py`.
"""
