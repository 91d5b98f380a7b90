"""The course: lessons written as Markdown in `assets/lessons/<language>/`, drawn step by step.

`reading` turns a file into a `Lesson` or into sentences about its mistakes; `facts/` computes every number a lesson
names; `pictures/` draws what is watched and changed; `steps` is what the learner goes through; `words` holds the
strings that stand in no lesson.
"""
